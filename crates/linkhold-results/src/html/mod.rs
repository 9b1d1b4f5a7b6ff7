//! The HTML report: one file that opens anywhere, without a network.
//!
//! The `plotly` crate supplies the plotly.js script, which each page embeds once. Charts are written as
//! plotly.js figures (JSON) and not with the crate's builders, which lack fills over broken polygons for each
//! trace and axes in the margin at narrow width. Everything that comes from a file is escaped, and the page's
//! own content security policy forbids every request.

mod charts;
mod escape;
mod mesh_map;
mod numbers;
mod page;
mod reproduce;
mod run;
mod surface;
mod told_less;
mod words;

pub use escape::escape;
pub use reproduce::render_reproduce;
pub use run::{case_table, render_run};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    /// The page without plotly.js, whose source is full of URLs that it does not load.
    fn own_part(page: &str) -> String {
        let script = page::plotly_script();
        assert!(page.contains(script));
        page.replace(script, "")
    }

    #[test]
    fn the_run_report_is_self_contained_and_tells_the_result() {
        let (report, series) = sample::run(10);
        let page = own_part(&render_run(&report, &series, "name = \"x\" # <b>"));
        for forbidden in ["http://", "https://", "src=", "@import", "url(", "href=\"/"] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        for wanted in [
            "dsasync",
            "goodput",
            "silence",
            "95 %",
            "of the limit",
            "# &lt;b&gt;",
            "Content-Security-Policy",
            "linkhold 9.8.7 (commit 0123456789ab)",
        ] {
            assert!(page.contains(wanted), "{wanted}");
        }
        assert!(page.matches("class=\"chart\"").count() >= 5);
    }

    #[test]
    fn nothing_from_a_file_becomes_markup() {
        let hostile = "</script><script>alert(1)</script><img src=x onerror=alert(1)>";
        let (mut report, mut series) = sample::run(2);
        report.scenario.name = hostile.into();
        report.scenario.description = hostile.into();
        report.scenario.facts = vec![hostile.into()];
        report.scenario.overrides = vec![hostile.into()];
        report.scenario.file = hostile.into();
        for run in report.runs.iter_mut().filter(|run| run.case == "hold") {
            run.case = hostile.into();
        }
        for row in report.compare.iter_mut().filter(|row| row.case == "hold") {
            row.case = hostile.into();
        }
        for over_time in series.iter_mut().filter(|s| s.case == "hold") {
            over_time.case = hostile.into();
        }
        sample::with_mesh(&mut series, 5, 5);
        let page = own_part(&render_run(&report, &series, hostile));
        assert!(!page.contains("<script>alert") && !page.contains("<img"), "markup got through");

        let mut reproduce = sample::reproduce();
        for figure in &mut reproduce.figures {
            figure.id = hostile.into();
            figure.title = hostile.into();
            figure.x_label = hostile.into();
            figure.rows.iter_mut().for_each(|row| row.case = hostile.into());
            figure.rows.iter_mut().for_each(|row| row.metric = hostile.into());
            figure.rows.iter_mut().for_each(|row| row.unit = hostile.into());
            figure.claims.iter_mut().for_each(|claim| claim.text = hostile.into());
            figure.claims.iter_mut().for_each(|claim| claim.criterion = hostile.into());
        }
        let mut surface = sample::surface();
        surface.x_label = hostile.into();
        surface.rows.iter_mut().for_each(|row| {
            row.case = format!("{hostile} {}{hostile}", row.case);
            row.metric = hostile.into();
            row.unit = if row.unit == "kbit/s" { hostile.into() } else { format!("{hostile} 2") };
        });
        reproduce.figures.push(surface);
        let texts = [(hostile.to_owned(), hostile.to_owned())];
        let page = own_part(&render_reproduce(&reproduce, &texts));
        assert!(page.contains("over two parameters"), "the heat map is there");
        assert!(!page.contains("<script>alert") && !page.contains("<img"), "markup got through");
    }

    #[test]
    fn what_a_kernel_measured_stands_beside_the_simulators_and_shows_hostile_text_as_text() {
        let mut report = sample::reproduce_on_a_kernel();
        let page = own_part(&render_reproduce(&report, &[]));
        for wanted in ["Linux 6.18.0", "1.12", "[1.10,\u{a0}1.14]", "the reason", "in the simulator 1 of 2"] {
            assert!(page.contains(wanted), "{wanted}");
        }
        let hostile = "<script>alert(1)</script>";
        let kernel = report.kernel.as_mut().expect("it has one");
        (kernel.release, kernel.judged_on) = (hostile.into(), hostile.into());
        for list in [&mut kernel.told, &mut kernel.left_out, &mut kernel.missing] {
            list.push(hostile.into());
        }
        assert!(!own_part(&render_reproduce(&report, &[])).contains("<script>alert"), "markup got through");
    }

    #[test]
    fn a_report_without_runs_or_series_still_renders() {
        let (mut report, _) = sample::run(1);
        assert!(render_run(&report, &[], "").contains("One seed"));
        report.runs.clear();
        report.compare.clear();
        assert!(render_run(&report, &[], "").contains("</html>"));
    }

    #[test]
    fn equal_results_are_equal_pages() {
        let (report, series) = sample::run(3);
        assert_eq!(render_run(&report, &series, "x"), render_run(&report, &series, "x"));
    }

    #[test]
    fn only_a_report_of_dsasync_explains_dsasyncs_cases() {
        let mut report = sample::reproduce();
        assert!(render_reproduce(&report, &[]).contains("<b>regular</b> is the plain router"));
        for figure in &mut report.figures {
            figure.id = figure.id.replace("dsasync/", "cr-aware/");
        }
        assert!(!render_reproduce(&report, &[]).contains("<b>regular</b>"));
    }

    #[test]
    fn the_reproduce_report_shows_the_paper_beside_the_measurement() {
        let page = own_part(&render_reproduce(&sample::reproduce(), &[]));
        for wanted in [
            "does not hold",
            "✓ holds",
            "? undecided",
            "paper",
            "dsasync/fig7",
            "1 of 3 claims holds, 1 is undecided",
        ] {
            assert!(page.contains(wanted), "{wanted}");
        }
        assert_eq!(page.matches("class=\"chart\"").count(), 3);
        assert!(!page.contains("over two parameters"), "no figure has two");
        assert!(page.contains("linkhold 9.8.7 (commit 0123456789ab)"), "what measured it");
    }
}
