//! The little of SVG a figure needs: lines, nodes and text that look the same wherever they are shown. Arrowheads are
//! drawn and superscripts are set by hand, since viewers differ in markers and in fonts.

/// Found wherever figures are shown, or something like it.
const FONTS: &str = "'DejaVu Serif', 'Times New Roman', Georgia, serif";
const INK: &str = "#222222";

/// Text for XML; what it does not allow becomes a question mark.
pub fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() => out.push('?'),
            c => out.push(c),
        }
    }
    out
}

/// Columns a text takes up, in units of the font size: an estimate on the safe side.
pub fn width(text: &str) -> f64 {
    let of = |c: char| match c {
        '\u{300}'..='\u{36f}' => 0.0,
        '⁰' | '¹' | '²' | '³' | '⁴'..='⁹' | '₀'..='₉' | '⁻' => 0.44,
        '(' | ')' | '.' | ',' | '|' | ' ' | '/' => 0.42,
        '+' | '−' | '…' => 0.86,
        'm' | 'w' | 'M' | 'W' => 0.95,
        _ => 0.66,
    };
    text.chars().map(of).sum()
}

/// A point of the plane; y grows downwards.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct At {
    pub x: f64,
    pub y: f64,
}

/// Elements in the order they are painted.
#[derive(Clone, Debug, Default)]
pub struct Drawing {
    elements: Vec<String>,
}

impl Drawing {
    /// A curve that leaves and lands vertically, with its head; `bend` is the height of the two control points.
    pub fn arc(&mut self, class: &str, color: &str, [from, to]: [At; 2], bend: f64) {
        const HEAD: f64 = 7.0;
        let neck = At { x: to.x, y: if bend < to.y { to.y - HEAD } else { to.y + HEAD } };
        let controls = [At { y: bend, ..from }, At { y: bend, ..to }].map(pair).join(" ");
        self.stroke(&format!("arc {class}"), color, &format!("M {} C {controls} {}", pair(from), pair(neck)));
        self.head(color, [At { x: to.x - 3.2, ..neck }, At { x: to.x + 3.2, ..neck }, to]);
    }

    /// A straight line with a head.
    pub fn arrow(&mut self, class: &str, color: &str, [from, to]: [At; 2]) {
        let length = (to.x - from.x).hypot(to.y - from.y).max(1.0);
        let (dx, dy) = ((to.x - from.x) / length, (to.y - from.y) / length);
        let neck = At { x: to.x - 6.0 * dx, y: to.y - 6.0 * dy };
        self.stroke(class, color, &format!("M {} L {}", pair(from), pair(neck)));
        let side = |s: f64| At { x: neck.x - s * dy, y: neck.y + s * dx };
        self.head(color, [side(2.8), side(-2.8), to]);
    }

    pub fn circle(&mut self, class: &str, fill: &str, center: At, radius: f64) {
        let (x, y) = (round(center.x), round(center.y));
        self.node("circle", class, fill, &format!(r#"cx="{x}" cy="{y}" r="{radius}""#));
    }

    pub fn square(&mut self, class: &str, fill: &str, center: At, half: f64) {
        let (x, y, side) = (round(center.x - half), round(center.y - half), 2.0 * half);
        self.node("rect", class, fill, &format!(r#"x="{x}" y="{y}" width="{side}" height="{side}" rx="6""#));
    }

    /// A letter with an index and a superscript, centered; they meet at a point, so no width has to be known.
    pub fn symbol(&mut self, center: At, letter: &Letter) {
        let meet = At { x: center.x - 4.0, y: center.y + 5.0 };
        self.text(meet, 16.0, INK, r#"text-anchor="end" font-style="italic""#, letter.base);
        let above = At { x: meet.x + 1.0, y: meet.y - 6.0 };
        self.text(above, 10.0, INK, "", &letter.above);
        if !letter.below.is_empty() {
            self.text(At { x: meet.x + 0.5, y: meet.y + 4.0 }, 10.0, INK, "", &letter.below);
        }
        if letter.tilde {
            let start = At { x: meet.x - 8.6, y: meet.y - 11.5 };
            self.stroke("tilde", INK, &format!("M {} q 2.2 -3.4 4.2 -1.2 t 4.2 -1.2", pair(start)));
        }
    }

    /// A label on a white ground, centered.
    pub fn label(&mut self, center: At, size: f64, color: &str, text: &str) {
        let (wide, high) = (width(text) * size + 4.0, size + 2.0);
        let [x, y, wide] = [center.x - wide / 2.0, center.y - high / 2.0, wide].map(round);
        let place = format!(r#"x="{x}" y="{y}" width="{wide}" height="{high}""#);
        self.elements.push(format!(r#"<rect class="ground" {place} fill="white"/>"#));
        let at = At { x: center.x, y: center.y + size * 0.34 };
        self.text(at, size, color, r#"text-anchor="middle" class="weight""#, text);
    }

    /// A line of text from the left, where `^{…}` is a superscript.
    pub fn sentence(&mut self, start: At, size: f64, text: &str) {
        let drop = size * 0.34;
        let mut spans = String::new();
        let mut rest = text;
        let mut back = 0.0;
        while let Some((before, after)) = rest.split_once("^{") {
            let (inside, after) = after.split_once('}').unwrap_or((after, ""));
            spans.push_str(&span(before, back, size));
            spans.push_str(&span(inside, -drop, size * 0.7));
            back = drop;
            rest = after;
        }
        spans.push_str(&span(rest, back, size));
        let (x, y) = (round(start.x), round(start.y));
        self.elements.push(format!(r#"<text x="{x}" y="{y}" font-size="{size}" fill="{INK}">{spans}</text>"#));
    }

    fn text(&mut self, at: At, size: f64, color: &str, more: &str, text: &str) {
        let (x, y, text) = (round(at.x), round(at.y), escape(text));
        self.elements.push(format!(r#"<text x="{x}" y="{y}" font-size="{size}" fill="{color}" {more}>{text}</text>"#));
    }

    fn stroke(&mut self, class: &str, color: &str, path: &str) {
        let style = format!(r#"fill="none" stroke="{color}" stroke-width="1.3""#);
        self.elements.push(format!(r#"<path class="{class}" d="{path}" {style}/>"#));
    }

    fn head(&mut self, color: &str, corners: [At; 3]) {
        let corners = corners.map(pair).join(" L ");
        self.elements.push(format!(r#"<path class="head" d="M {corners} Z" fill="{color}"/>"#));
    }

    fn node(&mut self, shape: &str, class: &str, fill: &str, place: &str) {
        let style = format!(r#"fill="{fill}" stroke="{INK}" stroke-width="1""#);
        self.elements.push(format!(r#"<{shape} class="node {class}" {place} {style}/>"#));
    }

    /// The file, on white.
    pub fn file(&self, width: f64, height: f64, title: &str) -> String {
        let size = format!(r#"width="{}" height="{}""#, width.ceil(), height.ceil());
        let view = format!(r#"viewBox="0 0 {} {}""#, width.ceil(), height.ceil());
        let (title, elements) = (escape(title), self.elements.join("\n"));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" {size} {view} font-family=\"{FONTS}\">\n\
             <title>{title}</title>\n<rect {size} fill=\"white\"/>\n{elements}\n</svg>\n"
        )
    }
}

/// What a node is called.
#[derive(Clone, PartialEq, Debug)]
pub struct Letter {
    pub base: &'static str,
    pub tilde: bool,
    pub above: String,
    pub below: String,
}

fn span(text: &str, shift: f64, size: f64) -> String {
    if text.is_empty() && shift <= 0.0 {
        return String::new();
    }
    let (shift, size) = (round(shift), round(size));
    format!(r#"<tspan dy="{shift}" font-size="{size}">{}</tspan>"#, escape(text))
}

fn pair(at: At) -> String {
    format!("{} {}", round(at.x), round(at.y))
}

/// A tenth of a pixel is enough.
fn round(x: f64) -> f64 {
    (x * 10.0).round() / 10.0
}
