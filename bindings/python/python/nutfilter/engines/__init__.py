"""Filters of items that lie in an engine: `nutfilter.engines.spark`."""
