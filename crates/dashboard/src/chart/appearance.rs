//! How a series looks: a colour for each theme, a dash and a marker.
//!
//! Colours are Paul Tol's and Okabe and Ito's, made lighter for the dark theme. Nobody has to tell series apart by
//! colour: no two share both dash and marker. What is ours is drawn through, what is not is dashed.

use maud::{Markup, html};

/// The page's background, in the light and in the dark theme.
pub const BACKGROUND: [&str; 2] = ["#fcfcfa", "#15181c"];

/// A colour by its name, with its value in the light and in the dark theme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colour {
    /// The CSS variable's name, without its dashes.
    pub name: &'static str,
    /// In the light and in the dark theme.
    pub values: [&'static str; 2],
}

macro_rules! colours {
    ($($constant:ident $name:literal $light:literal $dark:literal;)*) => {
        $(const $constant: Colour = Colour { name: $name, values: [$light, $dark] };)*
        /// Every colour that a series may have.
        pub const COLOURS: &[Colour] = &[$($constant),*];
    };
}

colours! {
    TEAL "teal" "#009988" "#44bb99";
    BLUE "blue" "#0072b2" "#56b4e9";
    INDIGO "indigo" "#332288" "#b9a7ff";
    VIOLET "violet" "#6a51a3" "#d8ccff";
    GREY "grey" "#767676" "#a0a0a0";
    VERMILION "vermilion" "#d55e00" "#e69f00";
    WINE "wine" "#882255" "#ee99aa";
    PURPLE "purple" "#aa4499" "#d78fc9";
    OCHRE "ochre" "#8f7000" "#ddcc77";
    ROSE "rose" "#cc6677" "#ee8866";
    GREEN "green" "#117733" "#7fc97f";
    INK "ink" "#111111" "#f2f2f2";
}

/// The shape of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "shapes are called what they are")]
pub enum Marker {
    Circle,
    Square,
    Diamond,
    Triangle,
    Cross,
    Plus,
    Bar,
    HollowCircle,
    HollowSquare,
    HollowDiamond,
    HollowTriangle,
    None,
}

/// How one series is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Appearance {
    /// Of lines and markers.
    pub colour: Colour,
    /// As in `stroke-dasharray`; empty where the line is drawn through.
    pub dash: &'static str,
    /// Of its points.
    pub marker: Marker,
}

const THROUGH: &str = "";
const DASHED: &str = "7 4";
const LONG: &str = "13 4";
const DOTTED: &str = "2 3";
const DASH_DOT: &str = "9 3 2 3";

impl Appearance {
    /// Of a row by who it is, of a structure by its name, of a ratio by its role.
    #[must_use]
    pub fn of(who: &str) -> Self {
        let (colour, dash, marker) = match who {
            "portable" => (TEAL, THROUGH, Marker::Circle),
            "avx2" | "neon" => (BLUE, THROUGH, Marker::Square),
            "avx512" | "gcs" => (INDIGO, THROUGH, Marker::Diamond),
            "naive" => (GREY, DASHED, Marker::Cross),
            "put-together" => (VERMILION, LONG, Marker::Triangle),
            "rust-bitcoin" | "library" | "std" => (WINE, DASH_DOT, Marker::HollowCircle),
            "golomb-coded-set" | "rdst" => (PURPLE, DASHED, Marker::HollowSquare),
            "murmur3-crate" | "fastmurmur3" | "siphasher" => (WINE, DASHED, Marker::HollowCircle),
            "sux-elias-fano" | "elias-fano" => (OCHRE, DOTTED, Marker::HollowTriangle),
            "other-format" => (OCHRE, DASH_DOT, Marker::HollowTriangle),
            "xorf-binary-fuse-8" | "binary-fuse-8" => (ROSE, DOTTED, Marker::Circle),
            "xorf-binary-fuse-16" | "binary-fuse-16" => (ROSE, DOTTED, Marker::HollowDiamond),
            "xorf-binary-fuse-32" | "binary-fuse-32" => (ROSE, DASH_DOT, Marker::HollowDiamond),
            "fastbloom-same-rate" | "bloom" => (GREEN, DOTTED, Marker::Plus),
            "fastbloom-same-bits" => (GREEN, DASH_DOT, Marker::Cross),
            "memory" | "limit" => (INK, LONG, Marker::Bar),
            "entropy" => (INK, THROUGH, Marker::None),
            who if who.ends_with("-threads") => (VIOLET, THROUGH, Marker::HollowDiamond),
            _ => (GREY, DOTTED, Marker::HollowSquare),
        };
        Self {
            colour,
            dash,
            marker,
        }
    }

    /// The value of `stroke` or `fill`.
    #[must_use]
    pub fn paint(&self) -> String {
        format!("var(--{})", self.colour.name)
    }

    /// A marker with its middle at a place.
    #[must_use]
    pub fn mark(&self, (x, y): (f64, f64)) -> Markup {
        let shape = match self.marker {
            Marker::None => return html! {},
            Marker::Circle | Marker::HollowCircle => {
                format!("M{:.1} {y:.1}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", x - 4.0)
            }
            Marker::Square | Marker::HollowSquare => {
                format!("M{:.1} {:.1}h7v7h-7z", x - 3.5, y - 3.5)
            }
            Marker::Diamond | Marker::HollowDiamond => {
                format!("M{x:.1} {:.1}l5 5l-5 5l-5 -5z", y - 5.0)
            }
            Marker::Triangle | Marker::HollowTriangle => {
                format!("M{x:.1} {:.1}l4.8 8.4h-9.6z", y - 5.2)
            }
            Marker::Cross => format!("M{:.1} {:.1}l7 7m0 -7l-7 7", x - 3.5, y - 3.5),
            Marker::Plus => format!("M{:.1} {y:.1}h9m-4.5 -4.5v9", x - 4.5),
            Marker::Bar => format!("M{:.1} {y:.1}h11", x - 5.5),
        };
        let fill = match self.marker {
            Marker::Circle | Marker::Square | Marker::Diamond | Marker::Triangle => self.paint(),
            Marker::Cross | Marker::Plus | Marker::Bar => "none".to_owned(),
            _ => "var(--background)".to_owned(),
        };
        html! {
            path d=(shape) fill=(fill) stroke=(self.paint()) stroke-width="1.6" {}
        }
    }

    /// A line with its marker, as legends have it.
    #[must_use]
    pub fn swatch(&self) -> Markup {
        html! {
            svg class="swatch" viewBox="0 0 34 14" width="34" height="14" aria-hidden="true" {
                path d="M1 7h32" stroke=(self.paint()) stroke-width="2" stroke-dasharray=[self.dash()] fill="none" {}
                (self.mark((17.0, 7.0)))
            }
        }
    }

    /// The attribute, where there is one to write.
    #[must_use]
    pub fn dash(&self) -> Option<&'static str> {
        (!self.dash.is_empty()).then_some(self.dash)
    }
}

/// What people call a row's `who`, a structure or a role, as a legend has room for it.
#[must_use]
pub fn label(who: &str) -> String {
    let known = match who {
        "portable" => "nutfilter, any CPU",
        "avx2" => "nutfilter, AVX2",
        "avx512" => "nutfilter, AVX-512",
        "neon" => "nutfilter, NEON",
        "naive" => "bit by bit (naive)",
        "put-together" => "best parts put together",
        "library" => "best filter library",
        "other-format" => "best other format",
        "std" => "sort_unstable (std)",
        "sux-elias-fano" => "Elias-Fano (sux)",
        "xorf-binary-fuse-8" => "binary fuse, 8 bits (xorf)",
        "xorf-binary-fuse-16" => "binary fuse, 16 bits (xorf)",
        "xorf-binary-fuse-32" => "binary fuse, 32 bits (xorf)",
        "fastbloom-same-rate" => "Bloom of our rate (fastbloom)",
        "fastbloom-same-bits" => "Bloom of our size (fastbloom)",
        "memory" | "limit" => "limit: moving the bytes",
        "gcs" => "Golomb-coded set (nutfilter)",
        "bloom" => "Bloom filter",
        "elias-fano" => "Elias-Fano",
        "binary-fuse-8" => "binary fuse, 8 bits",
        "binary-fuse-16" => "binary fuse, 16 bits",
        "binary-fuse-32" => "binary fuse, 32 bits",
        "entropy" => "entropy bound",
        _ => "",
    };
    if !known.is_empty() {
        return known.to_owned();
    }
    if let Some((level, threads)) = who
        .strip_suffix("-threads")
        .and_then(|who| who.rsplit_once('-'))
    {
        return format!("{}, {threads} threads", label(level));
    }
    who.to_owned()
}

/// The same where a line ends, beside it.
#[must_use]
pub fn short_label(who: &str) -> String {
    let long = label(who);
    let short = match who {
        "naive" => "bit by bit",
        "put-together" => "best parts",
        "memory" | "limit" => "limit",
        "std" => "sort_unstable",
        "gcs" => "GCS",
        "library" => "filter library",
        "other-format" => "other format",
        "fastbloom-same-rate" => "Bloom, our rate",
        "fastbloom-same-bits" => "Bloom, our size",
        "sux-elias-fano" => "Elias-Fano",
        "xorf-binary-fuse-8" => "fuse, 8 bits",
        "xorf-binary-fuse-16" => "fuse, 16 bits",
        "xorf-binary-fuse-32" => "fuse, 32 bits",
        _ => return long.replace("nutfilter, ", ""),
    };
    short.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// Relative luminance and contrast as WCAG 2 defines them.
    fn luminance(colour: &str) -> f64 {
        let channel = |i: usize| {
            let byte = u8::from_str_radix(&colour[1 + 2 * i..3 + 2 * i], 16).unwrap();
            let share = f64::from(byte) / 255.0;
            match share <= 0.04045 {
                true => share / 12.92,
                false => ((share + 0.055) / 1.055).powf(2.4),
            }
        };
        0.2126 * channel(0) + 0.7152 * channel(1) + 0.0722 * channel(2)
    }

    fn contrast(a: &str, b: &str) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn every_colour_stands_out_from_the_background_of_its_theme() {
        assert!((contrast("#000000", "#ffffff") - 21.0).abs() < 1e-9);
        assert!((contrast("#767676", "#ffffff") - 4.54).abs() < 0.01);
        for colour in COLOURS {
            for (value, background) in colour.values.iter().zip(BACKGROUND) {
                let contrast = contrast(value, background);
                assert!(
                    contrast >= 3.0,
                    "{}: {value} has {contrast:.2}",
                    colour.name
                );
            }
        }
    }

    #[test]
    fn series_of_one_chart_differ_in_dash_or_marker_and_not_in_colour_alone() {
        let charts = [
            "portable avx2 avx512 avx512-2-threads naive put-together sux-elias-fano rust-bitcoin \
             golomb-coded-set xorf-binary-fuse-8 xorf-binary-fuse-16 xorf-binary-fuse-32 \
             fastbloom-same-rate fastbloom-same-bits memory",
            "portable avx2 avx512 avx512-2-threads naive std rdst",
            "portable avx2 avx512 naive murmur3-crate",
            "naive put-together library other-format limit",
            "entropy gcs bloom elias-fano binary-fuse-8 binary-fuse-16 binary-fuse-32",
        ];
        for chart in charts {
            let mut seen = HashMap::new();
            for who in chart.split_whitespace() {
                let look = Appearance::of(who);
                let other = seen.insert((look.dash, look.marker), who);
                assert_eq!(other, None, "{who} looks like it");
            }
        }
    }

    #[test]
    fn names_are_said_in_words() {
        assert_eq!(label("avx512-2-threads"), "nutfilter, AVX-512, 2 threads");
        assert_eq!(short_label("avx512-2-threads"), "AVX-512, 2 threads");
        assert_eq!(label("rust-bitcoin"), "rust-bitcoin");
        assert_eq!(short_label("put-together"), "best parts");
    }
}
