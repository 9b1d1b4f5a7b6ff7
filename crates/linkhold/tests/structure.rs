//! Checks of the source's text: no files of a crate import each other in a circle, as far as their text
//! shows, and no comment line is too wide to read.
//!
//! A file is a node. A `use` line, and an inline path that begins with `crate`, `super`, `self` or a child
//! module, is an arrow to the file that defines what is named; a re-export is followed to the definition. A
//! macro that is exported (`#[macro_export]`) is named at the crate's root, and defined in its own file.
//! `mod x;` is no import. Test modules do not count. Every crate is checked, those of fuzz and Python
//! as well.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the project's folder")
}

/// Folders of all packages, those of other workspaces as well.
fn packages() -> Vec<PathBuf> {
    let mut all = entries(&root().join("crates"));
    all.extend([root().join("fuzz"), root().join("python/linkhold")]);
    all
}

#[test]
fn no_file_imports_in_a_circle() {
    let mut files = 0;
    let circles: Vec<String> = packages()
        .iter()
        .filter(|folder| folder.join("src").is_dir())
        .filter_map(|folder| {
            let graph = Crate::read(&folder.join("src")).imports();
            files += graph.len();
            let name = folder.strip_prefix(root()).expect("it is in the project").display();
            shortest_circle(&graph).map(|circle| format!("{name}:\n{circle}"))
        })
        .collect();
    assert!(files > 100, "read only {files} files");
    assert!(circles.is_empty(), "files import each other in a circle\n{}", circles.join("\n"));
}

/// The Rust files in these folders of all packages.
fn files_in(folders: &[&str]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for name in packages() {
        for folder in folders.iter().map(|folder| name.join(folder)).filter(|folder| folder.is_dir()) {
            rust_files(&folder, &mut files);
        }
    }
    assert!(files.len() > 100, "read only {} files", files.len());
    files
}

/// Widest line of a comment, in characters with its indentation: rustfmt's `max_width`, which rustfmt holds
/// code to, but no comments.
const WIDEST_COMMENT: usize = 110;

#[test]
fn no_comment_line_is_too_wide() {
    let files = files_in(&["src", "tests", "benches", "fuzz_targets"]);
    let wide: Vec<String> = files
        .iter()
        .flat_map(|file| {
            let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            let name = file.strip_prefix(root()).expect("it is in the project").display();
            too_wide(&text)
                .into_iter()
                .map(|(line, width)| format!("{name}:{line}: {width} characters\n"))
                .collect::<Vec<_>>()
        })
        .collect();
    assert!(wide.is_empty(), "comment lines wider than {WIDEST_COMMENT} characters\n{}", wide.concat());
}

/// The environment wins over the settings that `proptest!` is given (`linkhold-testing` says more).
#[test]
fn no_property_names_a_number_of_cases_that_the_environment_overrides() {
    let mut settings = 0;
    for file in &files_in(&["src", "tests"]) {
        let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        for line in text.lines().filter(|line| line.trim_start().starts_with("#![proptest_config(")) {
            settings += 1;
            let names_cases = line.contains("cases:") || line.contains("with_cases");
            assert!(!names_cases, "{}: {line}: use linkhold_testing::properties!", file.display());
        }
    }
    assert!(settings > 0, "no property was found");
}

/// The number and width of each comment line that is too wide, though it could be broken: a URL or a row of a
/// Markdown table cannot.
fn too_wide(source: &str) -> Vec<(usize, usize)> {
    let is_comment_to_break = |line: &str| {
        let line = line.trim_start();
        let Some(text) = line.strip_prefix("//") else { return false };
        let text = text.trim_start_matches(['/', '!']).trim_start();
        !text.starts_with("| ") && !text.contains("://")
    };
    let lines = source.lines().zip(1..);
    let widths = lines.filter(|(line, _)| is_comment_to_break(line)).map(|(l, n)| (n, l.chars().count()));
    widths.filter(|&(_, width)| width > WIDEST_COMMENT).collect()
}

/// What is in a folder, by name.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry of the folder").path()).collect();
    paths.sort();
    paths
}

/// Adds the Rust files in `folder` and the folders below it.
fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for path in entries(folder) {
        if path.is_dir() {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// A module's path below the crate's root; the root's is empty.
type ModulePath = Vec<String>;

/// Each file, with the files that it imports from and the first line that does.
type Graph = BTreeMap<PathBuf, BTreeMap<PathBuf, String>>;

/// A path in the source, such as `super::a::B`, and its line; each leaf of a `use` tree is a path.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Named {
    segments: Vec<String>,
    line: usize,
}

/// A leaf of a `use` tree.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Import {
    path: Named,
    /// Name under which it is imported: the last segment, or what follows `as`; `None` for `*`.
    alias: Option<String>,
}

/// What one module's source says. An inline module is a module of its own in the same file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Module {
    file: PathBuf,
    imports: Vec<Import>,
    /// Paths outside of `use` lines.
    paths: Vec<Named>,
    /// Modules declared here that are files.
    children: Vec<String>,
    /// Items defined here.
    items: BTreeSet<String>,
    /// Of these, macros that are named at the crate's root.
    exported_macros: BTreeSet<String>,
}

/// A crate's modules.
struct Crate {
    modules: BTreeMap<ModulePath, Module>,
}

impl Crate {
    /// Reads the crate in the folder `src`, from its root file on.
    fn read(src: &Path) -> Self {
        let root = ["lib.rs", "main.rs"].map(|name| src.join(name)).into_iter().find(|path| path.exists());
        let root = root.unwrap_or_else(|| panic!("{} has neither lib.rs nor main.rs", src.display()));
        let below = root.strip_prefix(src).expect("the root file is in the folder");
        Self::from_files(below, &|path| std::fs::read_to_string(src.join(path)).ok())
    }

    /// As `read`; `text_of` returns the text of a file, if it exists.
    fn from_files(root: &Path, text_of: &dyn Fn(&Path) -> Option<String>) -> Self {
        let mut modules = BTreeMap::new();
        let mut left = vec![(ModulePath::new(), root.to_owned(), root.with_file_name(""))];
        while let Some((path, file, folder)) = left.pop() {
            let text = text_of(&file).unwrap_or_else(|| panic!("{} cannot be read", file.display()));
            for (inner, mut module) in parse(&text) {
                file.clone_into(&mut module.file);
                let below = inner.iter().fold(folder.clone(), |folder, name| folder.join(name));
                let path: ModulePath = path.iter().chain(&inner).cloned().collect();
                for child in &module.children {
                    let beside = below.join(format!("{child}.rs"));
                    let within = below.join(child).join("mod.rs");
                    let file = if text_of(&beside).is_some() { beside } else { within };
                    let path = path.iter().chain([child]).cloned().collect();
                    left.push((path, file, below.join(child)));
                }
                modules.insert(path, module);
            }
        }
        Self { modules }
    }

    fn imports(&self) -> Graph {
        let mut graph: Graph =
            self.modules.values().map(|module| (module.file.clone(), BTreeMap::new())).collect();
        for (path, module) in &self.modules {
            let Some(arrows) = graph.get_mut(&module.file) else { continue };
            let imported = module.imports.iter().map(|import| &import.path);
            for named in imported.chain(&module.paths) {
                for target in self.resolve(path, &named.segments) {
                    if target != module.file {
                        let said = format!("line {}: {}", named.line, named.segments.join("::"));
                        arrows.entry(target).or_insert(said);
                    }
                }
            }
        }
        graph
    }

    /// The files that define what `segments` names in the module `from`; none for other crates. A name
    /// without a definition (a macro made it, or it is re-exported from another crate) counts as defined in
    /// the module that the path names.
    fn resolve(&self, from: &[String], segments: &[String]) -> BTreeSet<PathBuf> {
        let Some((module, rest)) = self.first_module(from, segments) else { return BTreeSet::new() };
        let found = self.find(&module, rest, &mut BTreeSet::new());
        if !found.is_empty() {
            return found;
        }
        let mut module = module;
        for name in rest {
            module.push(name.clone());
            if !self.modules.contains_key(&module) {
                module.pop();
                break;
            }
        }
        self.modules.get(&module).map(|module| module.file.clone()).into_iter().collect()
    }

    /// The module that a path begins with, and the rest of the path; `None` if it begins with another crate
    /// or an item.
    fn first_module<'a>(
        &self,
        from: &[String],
        segments: &'a [String],
    ) -> Option<(ModulePath, &'a [String])> {
        let (first, mut rest) = segments.split_first()?;
        match first.as_str() {
            "crate" => Some((ModulePath::new(), rest)),
            "self" => Some((from.to_vec(), rest)),
            "super" => {
                let mut module = from.split_last()?.1;
                while let Some((_, behind)) = rest.split_first().filter(|(next, _)| *next == "super") {
                    (module, rest) = (module.split_last()?.1, behind);
                }
                Some((module.to_vec(), rest))
            }
            name => {
                let child = [from, &[name.to_owned()]].concat();
                self.modules.contains_key(&child).then_some((child, rest))
            }
        }
    }

    /// The files that define what `segments` names below `module`; none if nothing does. `seen` ends circles
    /// of re-exports.
    fn find(
        &self,
        module: &[String],
        segments: &[String],
        seen: &mut BTreeSet<(ModulePath, Vec<String>)>,
    ) -> BTreeSet<PathBuf> {
        let Some(here) = self.modules.get(module) else { return BTreeSet::new() };
        if !seen.insert((module.to_vec(), segments.to_vec())) {
            return BTreeSet::new();
        }
        let Some((name, rest)) = segments.split_first().filter(|(name, _)| *name != "*") else {
            return BTreeSet::from([here.file.clone()]);
        };
        let child = [module, std::slice::from_ref(name)].concat();
        let is_module = self.modules.contains_key(&child);
        let mut found = if is_module { self.find(&child, rest, seen) } else { BTreeSet::new() };
        // A module and a function may share a name; if a path goes on behind the name, the module is meant.
        if is_module && !rest.is_empty() {
            return found;
        }
        if here.items.contains(name) {
            found.insert(here.file.clone());
        }
        if module.is_empty() && rest.is_empty() {
            let exporting = self.modules.values().filter(|module| module.exported_macros.contains(name));
            found.extend(exporting.map(|module| module.file.clone()));
        }
        for import in here.imports.iter().filter(|import| import.alias.as_ref() == Some(name)) {
            if let Some((target, inner)) = self.first_module(module, &import.path.segments) {
                found.extend(self.find(&target, &[inner, rest].concat(), seen));
            }
        }
        for import in here.imports.iter().filter(|import| import.alias.is_none()) {
            if !found.is_empty() {
                break;
            }
            if let Some((target, inner)) = self.first_module(module, &import.path.segments) {
                let without_star = &inner[..inner.len().saturating_sub(1)];
                found.extend(self.find(&target, &[without_star, segments].concat(), seen));
            }
        }
        found
    }
}

/// The circle with the fewest files, a line for each import.
fn shortest_circle(graph: &Graph) -> Option<String> {
    let mut shortest: Option<Vec<&PathBuf>> = None;
    for start in graph.keys() {
        let mut came_from: BTreeMap<&PathBuf, &PathBuf> = BTreeMap::new();
        let mut queue = VecDeque::from([start]);
        'search: while let Some(file) = queue.pop_front() {
            for target in graph.get(file).into_iter().flat_map(BTreeMap::keys) {
                if target == start {
                    let mut circle = vec![file];
                    while let Some(before) = circle.last().and_then(|last| came_from.get(*last)) {
                        circle.push(before);
                    }
                    circle.reverse();
                    if shortest.as_ref().is_none_or(|known| circle.len() < known.len()) {
                        shortest = Some(circle);
                    }
                    break 'search;
                }
                if target != start && !came_from.contains_key(target) {
                    came_from.insert(target, file);
                    queue.push_back(target);
                }
            }
        }
    }
    let circle = shortest?;
    let next = circle.iter().cycle().skip(1);
    let lines = circle.iter().zip(next).map(|(from, to)| {
        let said = graph.get(*from).and_then(|arrows| arrows.get(*to)).map_or("", String::as_str);
        format!("  {} imports from {} ({said})\n", from.display(), to.display())
    });
    Some(lines.collect())
}

/// The source with comments, strings and characters blank. Lines keep their numbers.
fn without_comments_and_strings(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let at = |index: usize| chars.get(index).copied().unwrap_or('\0');
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut out = String::with_capacity(source.len());
    let mut index = 0;
    while index < chars.len() {
        let end = match at(index) {
            '/' if at(index + 1) == '/' => {
                (index..chars.len()).find(|&i| chars[i] == '\n').unwrap_or(chars.len())
            }
            '/' if at(index + 1) == '*' => {
                let (mut depth, mut i) = (1, index + 2);
                while i < chars.len() && depth > 0 {
                    match (at(i), at(i + 1)) {
                        ('*', '/') => (depth, i) = (depth - 1, i + 2),
                        ('/', '*') => (depth, i) = (depth + 1, i + 2),
                        _ => i += 1,
                    }
                }
                i
            }
            '"' => string_end(&chars, index + 1),
            'r' | 'b' if index == 0 || !is_word(at(index - 1)) => match raw_string_end(&chars, index) {
                Some(end) => end,
                None => index,
            },
            // A character, not a lifetime: 'a' or '\n'.
            '\'' if at(index + 1) == '\\' => {
                (index + 3..chars.len()).find(|&i| chars[i] == '\'').map_or(chars.len(), |i| i + 1)
            }
            '\'' if at(index + 2) == '\'' => index + 3,
            _ => index,
        };
        if end == index {
            out.push(at(index));
            index += 1;
        } else {
            out.extend(
                chars[index..end.min(chars.len())].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }),
            );
            index = end;
        }
    }
    out
}

/// The index behind the string whose first character is at `index`.
fn string_end(chars: &[char], mut index: usize) -> usize {
    while index < chars.len() && chars[index] != '"' {
        index += if chars[index] == '\\' { 2 } else { 1 };
    }
    index + 1
}

/// The index behind the raw string that begins with `r` or `br` at `index`, if there is one.
fn raw_string_end(chars: &[char], index: usize) -> Option<usize> {
    let mut i = index + usize::from(chars.get(index) == Some(&'b'));
    if chars.get(i) != Some(&'r') {
        return None;
    }
    i += 1;
    let hashes = chars[i..].iter().take_while(|c| **c == '#').count();
    i += hashes;
    if chars.get(i) != Some(&'"') {
        return None;
    }
    let closing: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    let rest = chars.get(i + 1..)?;
    let length = rest.windows(closing.len()).position(|window| window == closing)?;
    Some(i + 1 + length + closing.len())
}

/// A word, `::`, or another character, and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Token {
    text: String,
    line: usize,
}

fn tokens(source: &str) -> Vec<Token> {
    let mut all = Vec::new();
    for (number, line) in source.lines().enumerate() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let word = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            let length = if word > 0 {
                word
            } else if rest.starts_with("::") {
                2
            } else {
                first.len_utf8()
            };
            let (text, behind) = rest.split_at(length);
            all.push(Token { text: text.to_owned(), line: number + 1 });
            rest = behind.trim_start();
        }
    }
    all
}

/// Goes through a file's tokens.
struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

/// The modules of a file: its own (with an empty path) and those written out in it, but none for tests.
fn parse(source: &str) -> BTreeMap<ModulePath, Module> {
    let tokens = tokens(&without_comments_and_strings(source));
    let mut modules = BTreeMap::new();
    Parser { tokens, at: 0 }.module(ModulePath::new(), &mut modules);
    modules
}

impl Parser {
    fn peek(&self, ahead: usize) -> &str {
        self.tokens.get(self.at + ahead).map_or("", |token| token.text.as_str())
    }

    fn line(&self) -> usize {
        self.tokens.get(self.at).map_or(0, |token| token.line)
    }

    fn is_over(&self) -> bool {
        self.at >= self.tokens.len()
    }

    /// True if the tokens ahead are these.
    fn sees(&self, words: &[&str]) -> bool {
        words.iter().enumerate().all(|(ahead, word)| self.peek(ahead) == *word)
    }

    /// Reads a module up to its closing brace or the end of the file.
    fn module(&mut self, path: ModulePath, modules: &mut BTreeMap<ModulePath, Module>) {
        let mut module = Module::default();
        let mut depth = 0usize;
        let mut is_exported = false;
        while !self.is_over() {
            match self.peek(0) {
                "}" if depth == 0 => break,
                "#" if self.sees(&["#", "[", "cfg", "(", "test", ")", "]"])
                    || self.sees(&["#", "[", "cfg", "(", "all", "(", "test"]) =>
                {
                    self.skip_item();
                    continue;
                }
                "#" => {
                    is_exported |= self.sees(&["#", "[", "macro_export"]);
                    self.skip_attribute();
                    continue;
                }
                "{" => depth += 1,
                "}" => depth -= 1,
                // `impl Trait + use<'a>` imports nothing.
                "use" if self.peek(1) != "<" => {
                    self.at += 1;
                    self.use_tree(&mut Vec::new(), &mut module.imports);
                    continue;
                }
                "mod" if depth == 0 && self.peek(2) == ";" => {
                    module.children.push(self.peek(1).to_owned());
                    self.at += 3;
                    continue;
                }
                "mod" if depth == 0 && self.peek(2) == "{" => {
                    let inner = path.iter().cloned().chain([self.peek(1).to_owned()]).collect();
                    self.at += 3;
                    self.module(inner, modules);
                }
                "struct" | "enum" | "trait" | "type" | "fn" | "const" | "static" | "union" if depth == 0 => {
                    // `const fn`, `static mut`: the name follows the second word.
                    let ahead = if ["fn", "mut", "unsafe"].contains(&self.peek(1)) { 2 } else { 1 };
                    module.items.insert(self.peek(ahead).to_owned());
                }
                "macro_rules" if depth == 0 => {
                    let name = self.peek(2).to_owned();
                    if std::mem::take(&mut is_exported) {
                        module.exported_macros.insert(name.clone());
                    }
                    module.items.insert(name);
                }
                _ if self.peek(1) == "::" && is_name(self.peek(0)) => {
                    module.paths.push(self.path());
                    continue;
                }
                _ => {}
            }
            self.at += 1;
        }
        modules.insert(path, module);
    }

    /// A path of names: `a::b::C`.
    fn path(&mut self) -> Named {
        let line = self.line();
        let mut segments = vec![self.peek(0).to_owned()];
        self.at += 1;
        while self.peek(0) == "::" && is_name(self.peek(1)) {
            segments.push(self.peek(1).to_owned());
            self.at += 2;
        }
        // `Vec::<u8>`: what follows is no part of the name.
        if self.peek(0) == "::" {
            self.at += 1;
        }
        Named { segments, line }
    }

    /// What follows `use` or stands within its braces, behind `before`; reads up to `;`, or up to the `,` or
    /// `}` behind it.
    fn use_tree(&mut self, before: &mut Vec<String>, imports: &mut Vec<Import>) {
        let (line, known) = (self.line(), before.len());
        let mut alias = None;
        let mut is_leaf = true;
        while !self.is_over() {
            match self.peek(0) {
                ";" | "," | "}" => break,
                "{" => {
                    is_leaf = false;
                    self.at += 1;
                    while !self.is_over() && !["}", ";"].contains(&self.peek(0)) {
                        self.use_tree(before, imports);
                        if self.peek(0) == "," {
                            self.at += 1;
                        }
                    }
                }
                "as" => {
                    alias = Some(self.peek(1).to_owned());
                    self.at += 1;
                }
                "::" => {}
                segment => before.push(segment.to_owned()),
            }
            self.at += 1;
        }
        if is_leaf && before.len() > known {
            let mut segments = before.clone();
            let is_glob = segments.last().is_some_and(|last| last == "*");
            // `use a::b::{self}` is `use a::b`.
            if segments.len() > 1 && segments.last().is_some_and(|last| last == "self") {
                segments.pop();
            }
            let alias = alias.or_else(|| segments.last().filter(|_| !is_glob).cloned());
            imports.push(Import { path: Named { segments, line }, alias });
        }
        before.truncate(known);
        if known == 0 && self.peek(0) == ";" {
            self.at += 1;
        }
    }

    /// Passes `#[…]` or `#![…]`.
    fn skip_attribute(&mut self) {
        while !self.is_over() && self.peek(0) != "[" {
            self.at += 1;
        }
        self.skip_brackets("[", "]");
    }

    /// Passes an item with its attributes: up to `;`, or the end of its braces.
    fn skip_item(&mut self) {
        while self.peek(0) == "#" {
            self.skip_attribute();
        }
        while !self.is_over() {
            match self.peek(0) {
                ";" => {
                    self.at += 1;
                    return;
                }
                "{" => {
                    let is_use = self.peek_back() == "::";
                    self.skip_brackets("{", "}");
                    if !is_use {
                        return;
                    }
                }
                // An array's length, `[u8; 4]`, ends no item.
                "[" => self.skip_brackets("[", "]"),
                _ => self.at += 1,
            }
        }
    }

    fn peek_back(&self) -> &str {
        self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).map_or("", |token| token.text.as_str())
    }

    /// Passes from an opening bracket to behind the one that closes it.
    fn skip_brackets(&mut self, open: &str, close: &str) {
        let mut depth = 0usize;
        while !self.is_over() {
            let text = self.peek(0);
            if text == open {
                depth += 1;
            } else if text == close {
                depth -= 1;
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn import_paths(source: &str) -> Vec<String> {
        parse(source)[&ModulePath::new()].imports.iter().map(|one| one.path.segments.join("::")).collect()
    }

    /// The imports of a crate of these files, as `from > to`.
    fn arrows(files: &[(&str, &str)]) -> Vec<String> {
        let graph = graph(files);
        let name = |path: &Path| path.to_string_lossy().into_owned();
        let pairs = graph.iter().flat_map(|(from, to)| to.keys().map(move |to| (from, to)));
        pairs.map(|(from, to)| format!("{} > {}", name(from), name(to))).collect()
    }

    fn graph(files: &[(&str, &str)]) -> Graph {
        let text_of = |path: &Path| {
            files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| (*text).to_owned())
        };
        Crate::from_files(Path::new("lib.rs"), &text_of).imports()
    }

    #[test]
    fn a_use_tree_is_one_path_a_leaf() {
        assert_eq!(
            import_paths(
                "use super::{a, b::{c, d as e, self}, f::*};\npub use crate::g;\npub(crate) use h::i;"
            ),
            ["super::a", "super::b::c", "super::b::d", "super::b", "super::f::*", "crate::g", "h::i"]
        );
        assert_eq!(
            import_paths("use super::{\n    a,\n    b::{\n        c,\n    },\n};"),
            ["super::a", "super::b::c"]
        );
        let module = &parse("use super::a as b;\nuse super::c::*;")[&ModulePath::new()];
        let aliases: Vec<_> = module.imports.iter().map(|import| import.alias.as_deref()).collect();
        assert_eq!(aliases, [Some("b"), None]);
        assert_eq!(module.imports[1].path.line, 2);
    }

    #[test]
    fn comments_strings_and_tests_import_nothing() {
        let source = r####"
// use super::a;
/* use super::b; /* use super::c; */ use super::d; */
const TEXT: &str = "use super::e; \" use super::f;";
const RAW: &str = r#"use super::g; " use super::h;"#;
fn quote<'a>(c: &'a char) -> impl Fn() -> bool + use<'a> { *c == '"' || *c == '\'' || *c == '{' }
#[cfg(test)]
use super::{i, j};
#[cfg(test)]
#[allow(dead_code)]
mod tests {
    use super::*;
    fn nested() { if true { crate::k::l() } }
}
#[cfg(test)]
mod more_tests;
#[derive(Debug)]
struct Last;
use super::z;
"####;
        let module = &parse(source)[&ModulePath::new()];
        assert_eq!(import_paths(source), ["super::z"]);
        assert!(module.children.is_empty() && module.paths.is_empty(), "{module:?}");
        let items: Vec<_> = module.items.iter().map(String::as_str).collect();
        assert_eq!(items, ["Last", "RAW", "TEXT", "quote"]);
    }

    #[test]
    fn a_wide_comment_line_is_told_unless_it_cannot_be_broken() {
        let wide = |start: &str| format!("{start}{}\n", "ä".repeat(111 - start.chars().count()));
        let told = ["//! ", "    /// ", "// a "].map(wide).concat();
        assert_eq!(too_wide(&told), [(1, 111), (2, 111), (3, 111)]);
        let others = ["let a = ", "//! | a | ", "/// <https://a/"].map(wide).concat();
        assert_eq!(too_wide(&others), []);
        assert_eq!(too_wide(&told.replace("ää", "ä")), []);
    }

    #[test]
    fn an_inline_path_is_an_import() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\nmod c;\nfn f() { c::g() }"),
            ("a.rs", "fn f(b: &super::b::B) -> Vec<u8> { Vec::<u8>::new() }"),
            ("b.rs", "pub struct B;\nfn f() { println!(\"{}\", crate::c::g()) }"),
            ("c.rs", "pub fn g() {}"),
        ];
        assert_eq!(arrows(&files), ["a.rs > b.rs", "b.rs > c.rs", "lib.rs > c.rs"]);
        assert_eq!(shortest_circle(&graph(&files)), None);
    }

    #[test]
    fn a_re_export_leads_to_the_file_that_defines_it() {
        let files = [
            ("lib.rs", "pub mod m;\npub use m::{X, Y};\npub use m::glob::*;"),
            ("m/mod.rs", "mod x;\nmod y;\npub mod glob;\npub use x::X;\npub use self::y::Inner as Y;"),
            ("m/x.rs", "use crate::Y;\npub struct X;"),
            ("m/y.rs", "use crate::Z;\npub struct Inner;"),
            ("m/glob.rs", "pub struct Z;"),
        ];
        let arrows = arrows(&files);
        for arrow in ["m/x.rs > m/y.rs", "m/y.rs > m/glob.rs"] {
            assert!(arrows.iter().any(|one| one == arrow), "{arrow} is not in {arrows:?}");
        }
        assert!(!arrows.iter().any(|arrow| arrow.ends_with("> lib.rs")), "{arrows:?}");
        assert_eq!(shortest_circle(&graph(&files)), None);
    }

    #[test]
    fn a_parent_that_defines_what_its_child_uses_and_uses_the_child_is_a_circle() {
        let child = ("m/x.rs", "use super::Error;\npub struct X;");
        let declared = ("m/mod.rs", "mod x;\npub enum Error {}");
        assert_eq!(shortest_circle(&graph(&[("lib.rs", "mod m;"), declared, child])), None);
        let using = ("m/mod.rs", "mod x;\npub use x::X;\npub enum Error {}");
        let circle = shortest_circle(&graph(&[("lib.rs", "mod m;"), using, child]));
        let expected = "  m/mod.rs imports from m/x.rs (line 2: x::X)\n  m/x.rs imports from m/mod.rs (line 1: super::Error)\n";
        assert_eq!(circle.as_deref(), Some(expected));
    }

    #[test]
    fn an_exported_macro_is_of_the_file_that_defines_it_and_another_is_not_at_the_root() {
        let files = [
            ("lib.rs", "mod read;\nmod file;\nuse read::Reader;"),
            (
                "read.rs",
                "pub use crate::shown;\npub struct Reader;\n#[doc = \"\"]\n#[macro_export]\n\
                 macro_rules! shown { () => {} }\nmacro_rules! hidden { () => {} }",
            ),
            ("file.rs", "use crate::read::shown;\nuse crate::hidden;"),
        ];
        assert_eq!(arrows(&files), ["file.rs > lib.rs", "file.rs > read.rs", "lib.rs > read.rs"]);
        assert_eq!(shortest_circle(&graph(&files)), None);
    }

    #[test]
    fn the_shortest_circle_is_told() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;"),
            ("a.rs", "use super::b::B;\npub struct A;"),
            ("b.rs", "use crate::c::C;\npub struct B;"),
            ("c.rs", "use crate::{a::A, d::D};\npub struct C;"),
            ("d.rs", "fn f() { super::c::C; }\npub struct D;"),
        ];
        let circle = shortest_circle(&graph(&files)).unwrap_or_default();
        assert_eq!(circle.lines().count(), 2, "{circle}");
        assert!(
            circle.contains("c.rs imports from d.rs") && circle.contains("d.rs imports from c.rs"),
            "{circle}"
        );
    }

    #[test]
    fn modules_written_out_in_a_file_are_of_that_file() {
        let files = [
            ("lib.rs", "mod a;\nmod b;"),
            ("a.rs", "mod inner {\n    use super::super::b::B;\n    use super::Own;\n}\nstruct Own;"),
            ("b.rs", "pub struct B;"),
        ];
        assert_eq!(arrows(&files), ["a.rs > b.rs"]);
    }
}
