//! Curves as an SVG figure: panels in a grid under one legend.
//!
//! A run has the same color in every panel. Colors are told apart by the color-blind; after seven of them, markers and
//! dashes change.

pub mod axis;
mod canvas;
pub mod runs;

use axis::{Axis, Scale};
use canvas::{Anchor, Area, At, Canvas, Font, Marker, Stroke, text_width};

/// After Okabe and Ito, without the yellow that is lost on white.
const COLORS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];
const MARKERS: [Marker; 4] = [Marker::Circle, Marker::Square, Marker::Diamond, Marker::Triangle];
const DASHES: [&str; 4] = ["", "7 4", "2 4", "9 4 2 4"];

const INK: &str = "#222222";
const GRAY: &str = "#555555";
const GRID: &str = "#e4e4e4";

const TITLE: Font = Font { size: 17.0, color: INK, is_bold: true };
const PANEL_TITLE: Font = Font { size: 14.0, color: INK, is_bold: true };
const LABEL: Font = Font { size: 13.0, color: INK, is_bold: false };
const SMALL: Font = Font { size: 12.0, color: GRAY, is_bold: false };

const MARGIN: f64 = 16.0;
/// The length of a line in the legend.
const SAMPLE: f64 = 26.0;
const LEGEND_ROW: f64 = 20.0;

/// A whole figure.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    pub title: String,
    /// Said in small letters below the legend.
    pub note: String,
    pub width: f64,
    pub height: f64,
    /// How many panels stand side by side.
    pub columns: usize,
    pub panels: Vec<Panel>,
}

impl Default for Figure {
    fn default() -> Figure {
        let (title, note) = (String::new(), String::new());
        Figure { title, note, width: 900.0, height: 560.0, columns: 1, panels: Vec::new() }
    }
}

/// Curves that share their axes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Panel {
    pub title: String,
    pub x_label: String,
    pub y_label: String,
    pub y_scale: Scale,
    pub curves: Vec<Curve>,
}

/// Points joined by lines; curves with the same label and color share a line of the legend.
#[derive(Clone, PartialEq, Debug)]
pub struct Curve {
    pub label: String,
    pub points: Vec<(f64, f64)>,
    pub style: Style,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Style {
    /// The place of its run among others: it decides the color.
    pub place: usize,
    pub look: Look,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Look {
    /// Thin and pale, behind the others.
    Light,
    Plain,
    /// With a mark on its points.
    Marked,
}

impl Style {
    fn color(self) -> &'static str {
        COLORS[self.place % COLORS.len()]
    }

    /// How many times the colors were used up.
    fn round(self) -> usize {
        self.place / COLORS.len() % MARKERS.len()
    }

    fn marker(self) -> Option<Marker> {
        (self.look == Look::Marked).then_some(MARKERS[self.round()])
    }

    fn stroke(self) -> Stroke {
        let (width, opacity) = match self.look {
            Look::Light => (1.1, 0.5),
            Look::Plain => (1.5, 0.9),
            Look::Marked => (1.9, 1.0),
        };
        Stroke { color: self.color(), width, opacity, dashes: DASHES[self.round()] }
    }
}

/// The figure as the text of an SVG file.
pub fn svg(figure: &Figure) -> String {
    let mut canvas = Canvas::default();
    let top = head(&mut canvas, figure);
    let columns = figure.columns.clamp(1, figure.panels.len().max(1));
    let rows = figure.panels.len().div_ceil(columns).max(1);
    let (wide, high) = (figure.width / columns as f64, (figure.height - top) / rows as f64);
    for (index, panel) in figure.panels.iter().enumerate() {
        let (left, top) = ((index % columns) as f64 * wide, top + (index / columns) as f64 * high);
        draw(&mut canvas, panel, Area { left, top, right: left + wide, bottom: top + high });
    }
    canvas.file(figure.width, figure.height, &figure.title)
}

/// The title, the legend and the note; where the panels begin.
fn head(canvas: &mut Canvas, figure: &Figure) -> f64 {
    let mut y = MARGIN;
    if !figure.title.is_empty() {
        y += TITLE.size;
        canvas.text(At { x: figure.width / 2.0, y: y - 2.0 }, TITLE, Anchor::Middle, &figure.title);
        y += 6.0;
    }
    for row in legend_rows(&entries(figure), figure.width - 2.0 * MARGIN) {
        y += LEGEND_ROW;
        let wide: f64 = row.iter().map(entry_width).sum();
        let mut x = (figure.width - wide) / 2.0;
        for entry in row {
            draw_entry(canvas, At { x, y: y - 6.0 }, &entry);
            x += entry_width(&entry);
        }
    }
    if !figure.note.is_empty() {
        y += SMALL.size + 5.0;
        canvas.text(At { x: figure.width / 2.0, y }, SMALL, Anchor::Middle, &figure.note);
    }
    y
}

// ---- the legend ----

/// A line of the legend: the most visible look of a label's curves.
type Entry = (String, Style);

fn entries(figure: &Figure) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for curve in figure.panels.iter().flat_map(|panel| &panel.curves).filter(|curve| !curve.label.is_empty()) {
        let is_same = |(label, style): &&mut Entry| *label == curve.label && style.place == curve.style.place;
        match entries.iter_mut().find(is_same) {
            Some((_, style)) => style.look = style.look.max(curve.style.look),
            None => entries.push((curve.label.clone(), curve.style)),
        }
    }
    entries
}

fn entry_width((label, _): &Entry) -> f64 {
    SAMPLE + 6.0 + text_width(label, LABEL.size) + 18.0
}

/// As few rows as hold all entries.
fn legend_rows(entries: &[Entry], width: f64) -> Vec<Vec<Entry>> {
    let mut rows: Vec<Vec<Entry>> = Vec::new();
    for entry in entries {
        match rows.last_mut() {
            Some(row) if row.iter().chain([entry]).map(entry_width).sum::<f64>() <= width => row.push(entry.clone()),
            _ => rows.push(vec![entry.clone()]),
        }
    }
    rows
}

fn draw_entry(canvas: &mut Canvas, at: At, (label, style): &Entry) {
    let end = At { x: at.x + SAMPLE, ..at };
    canvas.line("sample", style.stroke(), &[at, end]);
    if let Some(marker) = style.marker() {
        canvas.marker(marker, style.color(), At { x: at.x + SAMPLE / 2.0, ..at });
    }
    canvas.text(At { x: end.x + 6.0, y: at.y + 4.5 }, LABEL, Anchor::Start, label);
}

// ---- a panel ----

fn draw(canvas: &mut Canvas, panel: &Panel, whole: Area) {
    let seen = |curve: &&Curve| curve.points.iter().any(|point| is_seen(panel, point));
    let points = || panel.curves.iter().flat_map(|curve| &curve.points).filter(|point| is_seen(panel, point));
    let [xs, ys]: [Vec<f64>; 2] = [points().map(|p| p.0).collect(), points().map(|p| p.1).collect()];
    let x_axis = Axis::along(&xs, (whole.width() / 110.0) as usize);
    let y_axis = Axis::around(&ys, panel.y_scale, ((whole.height() / 65.0) as usize).max(3));
    let area = inside(panel, whole, &y_axis);
    frame(canvas, panel, area, &x_axis, &y_axis);
    if points().next().is_none() {
        canvas.text(area.center(), LABEL, Anchor::Middle, "no data");
    }
    let to = |(x, y): (f64, f64)| At {
        x: area.left + x_axis.place(x) * area.width(),
        y: area.bottom - y_axis.place(y) * area.height(),
    };
    let mut curves: Vec<&Curve> = panel.curves.iter().filter(seen).collect();
    curves.sort_by_key(|curve| curve.style.look);
    for curve in curves {
        let parts = curve.points.split(|point| !is_seen(panel, point));
        for part in parts {
            draw_part(canvas, curve.style, &part.iter().map(|point| to(*point)).collect::<Vec<At>>());
        }
    }
}

fn is_seen(panel: &Panel, (x, y): &(f64, f64)) -> bool {
    x.is_finite() && panel.y_scale.has(*y)
}

/// Where curves are, with room around for the words.
fn inside(panel: &Panel, whole: Area, y_axis: &Axis) -> Area {
    let numbers = y_axis.ticks.iter().map(|tick| text_width(&tick.label, SMALL.size)).fold(0.0, f64::max);
    let y_label = if panel.y_label.is_empty() { 0.0 } else { LABEL.size + 8.0 };
    let x_label = if panel.x_label.is_empty() { 0.0 } else { LABEL.size + 7.0 };
    let title = if panel.title.is_empty() { 0.0 } else { PANEL_TITLE.size + 8.0 };
    Area {
        left: whole.left + MARGIN + y_label + numbers + 8.0,
        top: whole.top + MARGIN + title,
        right: whole.right - MARGIN - 4.0,
        bottom: whole.bottom - MARGIN - x_label - SMALL.size - 6.0,
    }
}

/// The grid, its numbers and the words around it.
fn frame(canvas: &mut Canvas, panel: &Panel, area: Area, x_axis: &Axis, y_axis: &Axis) {
    let thin = |color| Stroke { color, width: 1.0, opacity: 1.0, dashes: "" };
    for tick in &y_axis.ticks {
        let y = area.bottom - y_axis.place(tick.value) * area.height();
        canvas.line("grid", thin(GRID), &[At { x: area.left, y }, At { x: area.right, y }]);
        canvas.text(At { x: area.left - 8.0, y: y + 4.2 }, SMALL, Anchor::End, &tick.label);
    }
    for tick in &x_axis.ticks {
        let x = area.left + x_axis.place(tick.value) * area.width();
        canvas.line("grid", thin(GRID), &[At { x, y: area.top }, At { x, y: area.bottom }]);
        canvas.text(At { x, y: area.bottom + SMALL.size + 6.0 }, SMALL, Anchor::Middle, &tick.label);
    }
    let [top, bottom] = [area.top, area.bottom].map(|y| At { x: area.left, y });
    canvas.line("axis", thin(GRAY), &[top, bottom, At { x: area.right, ..bottom }]);
    let center = area.center();
    canvas.text(At { x: center.x, y: area.top - 9.0 }, PANEL_TITLE, Anchor::Middle, &panel.title);
    let below = area.bottom + SMALL.size + 6.0 + LABEL.size + 7.0;
    canvas.text(At { x: center.x, y: below }, LABEL, Anchor::Middle, &panel.x_label);
    let numbers = y_axis.ticks.iter().map(|tick| text_width(&tick.label, SMALL.size)).fold(0.0, f64::max);
    canvas.upward(At { x: area.left - numbers - 16.0, y: center.y }, LABEL, &panel.y_label);
}

/// Points that follow each other, joined and marked.
fn draw_part(canvas: &mut Canvas, style: Style, points: &[At]) {
    canvas.line("curve", style.stroke(), &thinned(points));
    if let Some(marker) = style.marker() {
        for at in spaced(points, 10.0) {
            canvas.marker(marker, style.color(), at);
        }
    } else if let [alone] = points {
        canvas.marker(Marker::Circle, style.color(), *alone);
    }
}

/// The ends and the extremes of every half pixel: what is left out would not be seen.
fn thinned(points: &[At]) -> Vec<At> {
    let column = |at: &At| (at.x * 2.0).floor();
    let mut kept = Vec::new();
    for group in points.chunk_by(|a, b| column(a) == column(b)) {
        let height = |place: &usize| group[*place].y;
        let places = || 0..group.len();
        let lowest = places().min_by(|a, b| height(a).total_cmp(&height(b)));
        let highest = places().max_by(|a, b| height(a).total_cmp(&height(b)));
        let mut places: Vec<usize> = [Some(0), lowest, highest, Some(group.len() - 1)].into_iter().flatten().collect();
        places.sort_unstable();
        places.dedup();
        kept.extend(places.into_iter().map(|place| group[place]));
    }
    kept
}

/// Points far enough from each other to be marked, the last one always.
fn spaced(points: &[At], distance: f64) -> Vec<At> {
    let mut kept: Vec<At> = Vec::new();
    for at in points.iter().rev() {
        if kept.last().is_none_or(|last| (last.x - at.x).hypot(last.y - at.y) >= distance) {
            kept.push(*at);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(label: &str, place: usize, look: Look) -> Curve {
        let points = (0..20).map(|x| (f64::from(x), 1.0 / f64::from(x + 1))).collect();
        Curve { label: label.to_string(), points, style: Style { place, look } }
    }

    #[test]
    fn curves_of_a_run_share_a_line_of_the_legend() {
        let curves = vec![curve("a", 0, Look::Light), curve("a", 0, Look::Marked), curve("a", 1, Look::Light)];
        let figure = Figure { panels: vec![Panel { curves, ..Panel::default() }], ..Figure::default() };
        let looks: Vec<Look> = entries(&figure).iter().map(|(_, style)| style.look).collect();
        assert_eq!(looks, [Look::Marked, Look::Light]);
    }

    #[test]
    fn a_long_legend_takes_more_rows() {
        let entries: Vec<Entry> =
            (0..12).map(|place| (format!("recipe {place}"), Style { place, look: Look::Marked })).collect();
        let rows = legend_rows(&entries, 500.0);
        assert!(rows.len() > 1 && rows.iter().all(|row| row.iter().map(entry_width).sum::<f64>() <= 500.0));
        assert_eq!(rows.concat(), entries);
    }

    #[test]
    fn no_two_of_many_runs_look_alike() {
        let looks: Vec<_> = (0..28).map(|place| Style { place, look: Look::Marked }).collect();
        for (index, a) in looks.iter().enumerate() {
            assert!(looks[..index].iter().all(|b| (a.color(), a.marker()) != (b.color(), b.marker())));
        }
    }

    #[test]
    fn thinning_keeps_extremes_and_ends() {
        let points: Vec<At> = (0..1000).map(|i| At { x: f64::from(i) * 1e-4, y: f64::from((i * 7) % 11) }).collect();
        let kept = thinned(&points);
        assert!(kept.len() <= 4, "{}", kept.len());
        assert_eq!((kept.first(), kept.last()), (points.first(), points.last()));
        assert!(kept.iter().any(|at| at.y == 10.0) && kept.iter().any(|at| at.y == 0.0));
    }

    #[test]
    fn gaps_and_what_has_no_logarithm_are_left_out() {
        let mut gap = curve("a", 0, Look::Plain);
        gap.points[5].1 = f64::NAN;
        gap.points[10].1 = 0.0;
        for (scale, parts) in [(Scale::Linear, 2), (Scale::Log, 3)] {
            let panel = Panel { y_scale: scale, curves: vec![gap.clone()], ..Panel::default() };
            let text = svg(&Figure { panels: vec![panel], ..Figure::default() });
            assert_eq!(text.matches(r#"class="curve""#).count(), parts);
            assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        }
    }

    #[test]
    fn an_empty_panel_says_so() {
        assert!(svg(&Figure { panels: vec![Panel::default()], ..Figure::default() }).contains("no data"));
        assert!(svg(&Figure::default()).ends_with("</svg>\n"));
    }
}
