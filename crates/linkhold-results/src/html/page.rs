//! The page around a report: its style, the embedded plotly.js, and the places of the charts.

use std::sync::OnceLock;

use serde_json::Value;

use super::escape;

/// Forbids every request, whatever the page contains.
const POLICY: &str =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:";

const STYLE: &str = "
:root { --ink: #1b1f24; --soft: #57606a; --line: #d0d7de; --tint: #f6f8fa; --accent: #0b5394; }
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: #fff; font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 66rem; margin: 0 auto; padding: 1.5rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: .5rem 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 2.6rem 0 .6rem; padding-top: .8rem; border-top: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.6rem 0 .3rem; }
p, ul, dl { max-width: 46rem; overflow-wrap: anywhere; }
.lead { font-size: 1.1rem; }
.soft, figcaption { color: var(--soft); }
figure { margin: 1.2rem 0 2rem; }
figcaption { max-width: 46rem; font-size: .92rem; }
.chart { width: 100%; }
.scroll { overflow-x: auto; }
.wide { width: max-content; min-width: 100%; max-width: calc(100vw - 3rem); margin-left: 50%; transform: translateX(-50%); }
table { border-collapse: collapse; width: 100%; margin: .6rem 0; font-size: .93rem; font-variant-numeric: tabular-nums; }
th, td { white-space: nowrap; padding: .4rem .7rem; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top; }
.wide th, .wide td { padding: .35rem .3rem; font-size: .8rem; }
th { background: var(--tint); font-weight: 600; }
td.text, th.text { text-align: left; white-space: normal; min-width: 7rem; }
.verdict { border-left: 4px solid var(--accent); background: var(--tint); padding: .7rem 1rem; margin: 1rem 0; }
.name { white-space: nowrap; }
.holds { color: #116329; font-weight: 600; white-space: nowrap; }
.fails { color: #a40e26; font-weight: 600; white-space: nowrap; }
dt { font-weight: 600; margin-top: .5rem; }
dd { margin: 0 0 0 1.2rem; }
pre { background: var(--tint); border: 1px solid var(--line); border-radius: 6px; padding: .9rem; overflow-x: auto;
  font: .85rem/1.45 ui-monospace, monospace; }
summary { cursor: pointer; }
@media (max-width: 40rem) { main { padding: 1rem .8rem 3rem; } h1 { font-size: 1.35rem; } }
";

const DRAW: &str = "
for (const chart of document.querySelectorAll('.chart')) {
  const figure = JSON.parse(document.getElementById(chart.id + '-data').textContent);
  if (window.innerWidth < 640) {
    figure.layout.margin.l = Math.min(figure.layout.margin.l || 60, 60);
    figure.layout.font = Object.assign({}, figure.layout.font, {size: 11});
  }
  Plotly.newPlot(chart, figure.data, figure.layout, {responsive: true, displaylogo: false,
    displayModeBar: window.innerWidth < 640 ? false : 'hover',
    modeBarButtonsToRemove: ['select2d', 'lasso2d', 'autoScale2d']});
}
";

/// The plotly.js script of the `plotly` crate with its tags. The crate adds MathJax, which is a third of the
/// size; it is cut off, because the charts contain no formulas.
pub(super) fn plotly_script() -> &'static str {
    static SCRIPT: OnceLock<String> = OnceLock::new();
    SCRIPT.get_or_init(|| {
        const END: &str = "</script>";
        let mut sources = plotly::Plot::offline_js_sources();
        if let Some(end) = sources.find(END) {
            sources.truncate(end + END.len());
        }
        sources
    })
}

/// A page that is being built.
pub(super) struct Page {
    title: String,
    body: String,
    charts: usize,
    style: &'static str,
}

impl Page {
    /// An empty page; `title` is plain text.
    pub(super) fn new(title: &str) -> Self {
        Self { title: escape(title), body: String::new(), charts: 0, style: "" }
    }

    /// Adds HTML, in which text is already escaped.
    pub(super) fn html(&mut self, html: &str) {
        self.body.push_str(html);
        self.body.push('\n');
    }

    /// Adds a part that has a style of its own; a page has at most one such part.
    pub(super) fn styled(&mut self, html: &str, style: &'static str) {
        self.html(html);
        self.style = style;
    }

    /// Adds a chart with its caption, which is HTML. `label` is plain text for readers who cannot see the
    /// chart.
    pub(super) fn chart(&mut self, figure: &Value, label: &str, caption: &str) {
        let id = format!("chart-{}", self.charts);
        self.charts += 1;
        let height = figure.pointer("/layout/height").and_then(Value::as_u64).unwrap_or(380);
        let label = escape(label);
        // Inside a script element only `</` and `<!--` could end or change it.
        let json = figure.to_string().replace('<', "\\u003c");
        self.html(&format!(
            "<figure><div class=\"chart\" id=\"{id}\" role=\"img\" aria-label=\"{label}\" style=\"height:{height}px\"></div>\
             <script type=\"application/json\" id=\"{id}-data\">{json}</script>\
             <figcaption>{caption}</figcaption></figure>"
        ));
    }

    /// The whole document.
    pub(super) fn finish(self) -> String {
        let Self { title, body, charts, style } = self;
        let scripts =
            if charts == 0 { String::new() } else { format!("{}\n<script>{DRAW}</script>", plotly_script()) };
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <title>{title}</title>\n<style>{STYLE}{style}</style>\n</head>\n<body>\n<main>\n{body}\
             <noscript><p>The charts need JavaScript; text and tables above are complete without.</p></noscript>\n\
             </main>\n{scripts}\n</body>\n</html>\n"
        )
    }
}

/// Columns from which on a table may be wider than the text around it.
const MANY_COLUMNS: usize = 9;

/// A table from a header and rows of HTML cells; the columns in `text_columns` are aligned left.
pub(super) fn table(header: &[&str], rows: &[Vec<String>], text_columns: &[usize]) -> String {
    let class = |index: usize| if text_columns.contains(&index) { " class=\"text\"" } else { "" };
    let cells = |tag: &str, texts: &mut dyn Iterator<Item = &str>| -> String {
        texts.enumerate().map(|(i, text)| format!("<{tag}{}>{text}</{tag}>", class(i))).collect()
    };
    let head = cells("th", &mut header.iter().copied());
    let body: String = rows
        .iter()
        .map(|row| format!("<tr>{}</tr>", cells("td", &mut row.iter().map(String::as_str))))
        .collect();
    let wide = if header.len() >= MANY_COLUMNS { " wide" } else { "" };
    format!(
        "<div class=\"scroll{wide}\"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
}

/// A folded block of preformatted text.
pub(super) fn folded(summary: &str, text: &str) -> String {
    format!("<details><summary>{}</summary><pre>{}</pre></details>", escape(summary), escape(text))
}
