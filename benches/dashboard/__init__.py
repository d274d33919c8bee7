"""The benchmark page and the README's table, made from the records in benches/record."""
