//! The little of SVG that curves need. Text is left to the viewer's fonts, so its width is an estimate.

use unicode_width::UnicodeWidthStr;

/// Found wherever figures are shown, or something like it.
const FONTS: &str = "Helvetica, Arial, 'DejaVu Sans', sans-serif";

/// A point of the plane; y grows downwards.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct At {
    pub x: f64,
    pub y: f64,
}

/// A part of the plane.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Area {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

impl Area {
    pub fn width(&self) -> f64 {
        self.right - self.left
    }

    pub fn height(&self) -> f64 {
        self.bottom - self.top
    }

    pub fn center(&self) -> At {
        At { x: (self.left + self.right) / 2.0, y: (self.top + self.bottom) / 2.0 }
    }
}

/// Which part of a text stands at its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// How text is written.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Font {
    pub size: f64,
    pub color: &'static str,
    pub is_bold: bool,
}

/// How a line is drawn.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Stroke {
    pub color: &'static str,
    pub width: f64,
    pub opacity: f64,
    /// Lengths of dashes and gaps; empty for a line without gaps.
    pub dashes: &'static str,
}

/// What stands on a point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Marker {
    Circle,
    Square,
    Diamond,
    Triangle,
}

/// Columns a text takes up at a font size: an estimate on the safe side.
pub fn text_width(text: &str, size: f64) -> f64 {
    text.width() as f64 * size * 0.6
}

/// Elements in the order they are painted.
#[derive(Clone, Debug, Default)]
pub struct Canvas {
    elements: Vec<String>,
}

impl Canvas {
    pub fn text(&mut self, at: At, font: Font, anchor: Anchor, text: &str) {
        let place = format!(r#"x="{}" y="{}""#, round(at.x), round(at.y));
        self.words(&place, font, anchor, text);
    }

    /// Text that is read from below.
    pub fn upward(&mut self, at: At, font: Font, text: &str) {
        let place = format!(r#"transform="translate({} {}) rotate(-90)""#, round(at.x), round(at.y));
        self.words(&place, font, Anchor::Middle, text);
    }

    fn words(&mut self, place: &str, font: Font, anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => r#" text-anchor="middle""#,
            Anchor::End => r#" text-anchor="end""#,
        };
        let weight = if font.is_bold { r#" font-weight="bold""# } else { "" };
        let style = format!(r#"font-size="{}" fill="{}"{weight}{anchor}"#, font.size, font.color);
        self.elements.push(format!("<text {place} {style}>{}</text>", escape(text)));
    }

    /// A line through points; one point alone is no line.
    pub fn line(&mut self, class: &str, stroke: Stroke, points: &[At]) {
        if points.len() < 2 {
            return;
        }
        let path: Vec<String> = points.iter().map(|at| format!("{} {}", round(at.x), round(at.y))).collect();
        let opacity = if stroke.opacity < 1.0 { format!(r#" opacity="{}""#, stroke.opacity) } else { String::new() };
        let dashes = match stroke.dashes {
            "" => String::new(),
            dashes => format!(r#" stroke-dasharray="{dashes}""#),
        };
        let style = format!(r#"stroke="{}" stroke-width="{}"{opacity}{dashes}"#, stroke.color, stroke.width);
        let joins = r#"stroke-linejoin="round" stroke-linecap="round""#;
        self.elements.push(format!(r#"<path class="{class}" d="M{}" fill="none" {style} {joins}/>"#, path.join("L")));
    }

    /// A mark with a thin white rim, so that it is seen among others.
    pub fn marker(&mut self, marker: Marker, color: &str, at: At) {
        let (x, y) = (round(at.x), round(at.y));
        let style = format!(r#"fill="{color}" stroke="white" stroke-width="0.8""#);
        let shape = match marker {
            Marker::Circle => format!(r#"<circle cx="{x}" cy="{y}" r="3.4" {style}/>"#),
            Marker::Square => {
                let [x, y] = [at.x - 3.1, at.y - 3.1].map(round);
                format!(r#"<rect x="{x}" y="{y}" width="6.2" height="6.2" {style}/>"#)
            }
            Marker::Diamond => format!(r#"<path d="M{x} {y}m0 -4.4l4.4 4.4l-4.4 4.4l-4.4 -4.4z" {style}/>"#),
            Marker::Triangle => format!(r#"<path d="M{x} {y}m0 -4.4l4.1 7.2h-8.2z" {style}/>"#),
        };
        self.elements.push(shape);
    }

    /// The file, on white.
    pub fn file(&self, width: f64, height: f64, title: &str) -> String {
        let size = format!(r#"width="{width}" height="{height}""#);
        let (title, elements) = (escape(title), self.elements.join("\n"));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" {size} viewBox=\"0 0 {width} {height}\" \
             font-family=\"{FONTS}\">\n<title>{title}</title>\n<rect {size} fill=\"white\"/>\n{elements}\n</svg>\n"
        )
    }
}

/// Text for XML; what it does not allow becomes a question mark.
fn escape(text: &str) -> String {
    let of = |c: char| match c {
        '&' => "&amp;".to_string(),
        '<' => "&lt;".to_string(),
        '>' => "&gt;".to_string(),
        '"' => "&quot;".to_string(),
        c if c.is_control() || ['\u{fffe}', '\u{ffff}'].contains(&c) => "?".to_string(),
        c => c.to_string(),
    };
    text.chars().map(of).collect()
}

/// A tenth of a pixel is enough.
fn round(x: f64) -> f64 {
    (x * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_break_the_file() {
        assert_eq!(escape("a<b & \"c\"\n"), "a&lt;b &amp; &quot;c&quot;?");
    }
}
