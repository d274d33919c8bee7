//! Numbers as people read them.

/// So many significant digits, thousands apart, no exponent: `1,234`, `0.00123`, `11.5`.
#[must_use]
pub fn significant(value: f64, digits: i32) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let magnitude = value.abs().log10().floor() as i32;
    let decimals = (digits - 1 - magnitude).max(0) as usize;
    let text = format!("{value:.decimals$}");
    // 9.996 has become 10.00, with a digit too many.
    let digits_written = text
        .trim_start_matches(['-', '0', '.'])
        .replace('.', "")
        .len();
    let text = match decimals > 0 && digits_written as i32 > digits {
        true => format!("{value:.*}", decimals - 1),
        false => text,
    };
    grouped(&text)
}

/// A whole number, thousands apart.
#[must_use]
pub fn whole(value: u64) -> String {
    grouped(&value.to_string())
}

/// The digits before the point in groups of three.
fn grouped(text: &str) -> String {
    let (before, after) = text.split_once('.').unwrap_or((text, ""));
    let (sign, digits) = match before.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", before),
    };
    let mut result = sign.to_owned();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            result.push(',');
        }
        result.push(digit);
    }
    if !after.is_empty() {
        result.push('.');
        result.push_str(after);
    }
    result
}

/// A count in words where it is round: `10 million`, `100,000`.
#[must_use]
pub fn count(n: u64) -> String {
    match n {
        1_000_000 => "a million".to_owned(),
        n if n > 1_000_000 && n.is_multiple_of(100_000) => {
            format!("{} million", n as f64 / 1e6)
        }
        n => whole(n),
    }
}

/// A count as an axis has room for it: `100k`, `10m`.
#[must_use]
pub fn short_count(n: f64) -> String {
    match n {
        n if n >= 1e6 => format!("{}m", n / 1e6),
        n if n >= 1e3 => format!("{}k", n / 1e3),
        n => format!("{n}"),
    }
}

/// A time given in nanoseconds, in the unit that suits it: `0.36 ns`, `4.1 ms`.
#[must_use]
pub fn time(nanoseconds: f64) -> String {
    let (unit, name) = time_unit(nanoseconds);
    format!("{} {name}", significant(nanoseconds / unit, 3))
}

/// The same for an axis, without digits that it does not have: `1 µs`.
#[must_use]
pub fn short_time(nanoseconds: f64) -> String {
    let (unit, name) = time_unit(nanoseconds);
    format!("{} {name}", trimmed(nanoseconds / unit))
}

fn time_unit(nanoseconds: f64) -> (f64, &'static str) {
    match nanoseconds {
        // Ticks that should be 1000 may lie a little below.
        value if value >= 1e9 * (1.0 - 1e-9) => (1e9, "s"),
        value if value >= 1e6 * (1.0 - 1e-9) => (1e6, "ms"),
        value if value >= 1e3 * (1.0 - 1e-9) => (1e3, "µs"),
        _ => (1.0, "ns"),
    }
}

/// A tick's value, which has few digits but may carry the dust of arithmetic: `0.3`, `20`.
#[must_use]
pub fn trimmed(value: f64) -> String {
    let text = format!("{value:.9}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    grouped(if text == "-0" { "0" } else { text })
}

/// How many times: `11.5×`.
#[must_use]
pub fn times(ratio: f64) -> String {
    format!("{}×", significant(ratio, 3))
}

/// A share: `98.0 %`.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{} %", significant(share * 100.0, 3))
}

/// A change as a share of what was: `+2.4 %`.
#[must_use]
pub fn change(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}

/// A power of ten, `10⁻⁶`, and other rates as `1 in 784,931`.
#[must_use]
pub fn rate(rate: f64) -> String {
    let power = rate.log10();
    if rate < 0.9 && (power - power.round()).abs() < 1e-9 {
        let digits = format!("{}", -power.round());
        let raised = digits.chars().map(|digit| match digit {
            '1' => '¹',
            '2' => '²',
            '3' => '³',
            digit => char::from_u32(0x2070 + digit.to_digit(10).unwrap_or(0)).unwrap_or(digit),
        });
        return format!("10⁻{}", raised.collect::<String>());
    }
    one_in(rate)
}

/// A rate as `1 in 784,931`.
#[must_use]
pub fn one_in(rate: f64) -> String {
    match rate < 0.05 {
        true => format!("1 in {}", grouped(&format!("{:.0}", 1.0 / rate))),
        false => format!("1 in {}", trimmed((100.0 / rate).round() / 100.0)),
    }
}

/// Seconds as hours, minutes or seconds: `2 h 10 min`.
#[must_use]
pub fn duration(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        0..60 => format!("{} s", significant(seconds, 2)),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_say_something() {
        for (value, text) in [
            (0.0, "0"),
            (11.523, "11.5"),
            (0.360_132, "0.360"),
            (9.996, "10.0"),
            (99.96, "100"),
            (0.000_123_46, "0.000123"),
            (1234.5, "1,234"),
            (-1_234_567.0, "-1,234,567"),
            (999.6, "1,000"),
        ] {
            assert_eq!(significant(value, 3), text, "{value}");
        }
    }

    #[test]
    fn counts_and_times_have_their_unit() {
        assert_eq!(count(10_000_000), "10 million");
        assert_eq!(count(1_000_000), "a million");
        assert_eq!(count(100_000), "100,000");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!([1e5, 1e7, 500.0].map(short_count), ["100k", "10m", "500"]);
        assert_eq!(time(0.360_132), "0.360 ns");
        assert_eq!(time(4_117_000.0), "4.12 ms");
        assert_eq!(short_time(2e6), "2 ms");
        assert_eq!(short_time(0.1 + 0.2), "0.3 ns");
        assert_eq!(short_time(999.999_999_999_9), "1 µs");
        assert_eq!(duration(7800.0), "2 h 10 min");
        assert_eq!(duration(61.0), "1 min 1 s");
        assert_eq!(duration(0.25), "0.25 s");
    }

    #[test]
    fn rates_are_powers_of_ten_or_one_in_so_many() {
        assert_eq!(rate(1e-6), "10⁻⁶");
        assert_eq!(rate(1e-12), "10⁻¹²");
        assert_eq!(rate(1.0 / 784_931.0), "1 in 784,931");
        assert_eq!(rate(0.5), "1 in 2");
        assert_eq!(
            [0.1, 0.01, 0.3].map(one_in),
            ["1 in 10", "1 in 100", "1 in 3.33"]
        );
        assert_eq!(change(0.0236), "+2.4 %");
        assert_eq!(change(-0.5), "-50.0 %");
    }
}
