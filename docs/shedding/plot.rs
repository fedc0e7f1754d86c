//! The figure, as SVG.

use super::simulation::{CLASSES, InMemory, Sample, Simulation, busy};
use std::fmt::Write as _;
use tollgate::worker::Settings;

/// How long the run is, and when what happens in it, in seconds.
const SECONDS: u64 = 900;
const SURGE: f64 = 60.0;
const CALM: f64 = 540.0;

/// What is asked of the workers, as a share of what they can do: usually, and in the surge.
const USUAL: f64 = 0.6;
const IN_SURGE: f64 = 1.7;

/// The size of the figure, and of its panels.
const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 530.0;
const LEFT: f64 = 88.0;
const RIGHT: f64 = 30.0;
const PANEL: f64 = 130.0;
const GAP: f64 = 34.0;
const TOP: f64 = 34.0;

/// Colours that are told apart by those who see few of them (Okabe and Ito, 2008).
const INK: &str = "#333333";
const GRID: &str = "#dddddd";
const BLUE: &str = "#0072b2";
const ORANGE: &str = "#d55e00";
const CLASS: [&str; CLASSES.len()] = ["#e69f00", "#009e73", "#cc79a7"];

/// What is asked of the workers at a time.
fn demand(at_s: f64) -> f64 {
    if (SURGE..CALM).contains(&at_s) { IN_SURGE } else { USUAL }
}

/// The run that is drawn.
pub(super) fn run() -> Vec<Sample> {
    let mut pool = Simulation::new(InMemory::default(), Settings::default());
    pool.run(SECONDS, |at_s, last, _| Some(busy(demand(at_s), &last.chances)))
}

/// A panel: what is at the bottom and at the top of it, and where it is.
struct Panel {
    title: &'static str,
    least: f64,
    most: f64,
    top: f64,
}

impl Panel {
    fn x(at_s: f64) -> f64 {
        LEFT + at_s / SECONDS as f64 * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        self.top + PANEL * (1.0 - (value - self.least) / (self.most - self.least))
    }

    /// The frame, its title, and lines at some values, with labels a little below them.
    fn frame(&self, svg: &mut String, lines: &[(f64, f64, &str)]) {
        let (left, right) = (Self::x(0.0), Self::x(SECONDS as f64));
        text(svg, left, self.top - 9.0, "start", "bold", self.title);
        for (value, nudge, label) in lines {
            let y = self.y(*value);
            let _ = writeln!(
                svg,
                r#"<line x1="{left:.1}" y1="{y:.1}" x2="{right:.1}" y2="{y:.1}" stroke="{GRID}"/>"#
            );
            text(svg, left - 6.0, y + 4.0 + nudge, "end", "normal", label);
        }
        for at_s in [SURGE, CALM] {
            let (x, bottom) = (Self::x(at_s), self.top + PANEL);
            let top = self.top;
            let _ = writeln!(
                svg,
                r#"<line x1="{x:.1}" y1="{top:.1}" x2="{x:.1}" y2="{bottom:.1}" stroke="{INK}" stroke-dasharray="2 4"/>"#
            );
        }
    }

    fn curve(&self, svg: &mut String, colour: &str, dash: &str, points: &[(f64, f64)]) {
        let mut path = String::new();
        for (place, (at_s, value)) in points.iter().enumerate() {
            let verb = if place == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{verb}{:.1} {:.1}", Self::x(*at_s), self.y(*value));
        }
        let _ = writeln!(
            svg,
            r#"<path d="{path}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>"#
        );
    }
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, weight: &str, text: &str) {
    coloured(svg, (x, y), anchor, weight, INK, text);
}

fn coloured(
    svg: &mut String,
    (x, y): (f64, f64),
    anchor: &str,
    weight: &str,
    colour: &str,
    text: &str,
) {
    let _ = writeln!(
        svg,
        r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" font-weight="{weight}" fill="{colour}">{text}</text>"#
    );
}

/// The figure.
pub(super) fn svg() -> String {
    // A point for each second and a half is more than can be seen.
    let samples: Vec<Sample> = run().into_iter().step_by(15).collect();
    let curve = |value: fn(&Sample) -> f64| -> Vec<(f64, f64)> {
        samples.iter().map(|sample| (sample.at_s, value(sample))).collect()
    };
    let mut svg = String::new();
    let _ = writeln!(
        svg,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">"#
    );
    let _ = writeln!(svg, "<title>A surge, what is shed of it, and how it comes back</title>");
    let _ = writeln!(svg, r#"<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>"#);

    let top = |place: f64| TOP + place * (PANEL + GAP);
    let panel = Panel { title: "utilization of the workers", least: 0.2, most: 1.8, top: top(0.0) };
    panel.frame(
        &mut svg,
        &[
            (0.7, 4.0, "good_below"),
            (0.8, -4.0, "bad_above"),
            (1.2, 0.0, "120 %"),
            (1.7, 0.0, "170 %"),
        ],
    );
    let asked: Vec<_> = samples.iter().map(|it| (it.at_s, demand(it.at_s))).collect();
    panel.curve(&mut svg, INK, "1 3", &asked);
    panel.curve(&mut svg, BLUE, "", &curve(|sample| sample.utilization.unwrap_or_default()));
    let label = (Panel::x(CALM) - 8.0, panel.y(IN_SURGE) + 16.0);
    coloured(&mut svg, label, "end", "normal", INK, "what is asked of them");

    let panel = Panel { title: "amount of shedding", least: -0.3, most: 1.0, top: top(1.0) };
    panel.frame(&mut svg, &[(0.0, 0.0, "0"), (0.5, 0.0, "0.5"), (1.0, 0.0, "1")]);
    panel.curve(&mut svg, ORANGE, "", &curve(|sample| sample.amount));

    let panel = Panel { title: "chance to be dropped", least: 0.0, most: 1.0, top: top(2.0) };
    panel.frame(&mut svg, &[(0.0, 0.0, "0"), (0.5, 0.0, "50 %"), (1.0, 0.0, "100 %")]);
    for (class, colour) in CLASS.iter().enumerate() {
        let points: Vec<_> = samples.iter().map(|it| (it.at_s, it.chances[class])).collect();
        panel.curve(&mut svg, colour, "", &points);
        let at = (Panel::x(CALM) + 14.0 + 46.0 * class as f64, panel.top - 9.0);
        coloured(&mut svg, at, "start", "bold", colour, CLASSES[class]);
    }
    let bottom = top(2.0) + PANEL + 18.0;
    for minutes in (0..=SECONDS / 60).step_by(3) {
        let x = Panel::x((minutes * 60) as f64);
        text(&mut svg, x, bottom, "middle", "normal", &format!("{minutes} min"));
    }
    svg.push_str("</svg>\n");
    svg
}
