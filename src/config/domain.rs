//! Files together: which domain is where, and what can be seen only once all of it is there.

use super::{
    descriptor,
    file::File,
    head::Head,
    pool,
    sibling::{self, Sibling},
};
use crate::{
    rules::{Descriptor, Domain, Kind},
    yaml::{Diagnostic, Mapping, Place, Report, shown},
};
use std::collections::{HashMap, HashSet, hash_map::Entry};

/// How rule files are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Whether several files may share a domain; their top-level descriptors are then joined.
    pub merge_domains: bool,
}

/// The files of a domain.
#[derive(Debug)]
struct Joined<'n> {
    name: Option<String>,
    head: Head,
    mappings: Vec<&'n Mapping<'n>>,
}

/// A domain, before its parts are compared.
struct Complete {
    name: Option<String>,
    head: Head,
    descriptors: Vec<Sibling>,
}

/// Makes domains of files.
pub(super) fn join(
    files: Vec<File<'_>>,
    options: &Options,
    report: &mut Report<'_>,
) -> Vec<Domain> {
    let joined = by_domain(files, options, report);
    let complete: Vec<_> = joined.into_iter().map(|domain| read(domain, report)).collect();
    complete.into_iter().filter_map(|domain| finish(domain, report)).collect()
}

/// Brings together the files of each domain.
fn by_domain<'n>(
    files: Vec<File<'n>>,
    options: &Options,
    report: &mut Report<'_>,
) -> Vec<Joined<'n>> {
    let mut joined: Vec<Joined<'n>> = Vec::new();
    let mut seen: HashMap<String, (Place, usize)> = HashMap::new();
    for File { domain, mut head, mapping } in files {
        let mut into = joined.len();
        let name = domain.map(|(name, place)| {
            match seen.entry(name.clone()) {
                Entry::Vacant(vacant) => {
                    vacant.insert((place, into));
                }
                Entry::Occupied(first) if options.merge_domains => into = first.get().1,
                Entry::Occupied(first) => {
                    twice(&name, place, first.get().0, report);
                    head.pools.may_be_more = true;
                }
            }
            name
        });
        match joined.get_mut(into) {
            Some(domain) => {
                domain.head.join(head, report);
                domain.mappings.extend(mapping);
            }
            None => joined.push(Joined { name, head, mappings: mapping.into_iter().collect() }),
        }
    }
    joined
}

fn read(domain: Joined<'_>, report: &mut Report<'_>) -> Complete {
    let Joined { name, head, mappings } = domain;
    let mappings = mappings.into_iter();
    let descriptors =
        mappings.flat_map(|mapping| descriptor::read_all(mapping, &head, None, report)).collect();
    Complete { name, head, descriptors }
}

fn finish(domain: Complete, report: &mut Report<'_>) -> Option<Domain> {
    let Complete { name, head, descriptors: siblings } = domain;
    sibling::check(&siblings, report);
    let mut replaced = Vec::new();
    let descriptors = sibling::split(siblings, &mut replaced);
    // A limit that was given up for an error may have had the name, or used the pool.
    if !report.has_errors() {
        check_replaced(&descriptors, &replaced, report);
        pool::check_used(&head.pools, &descriptors, report);
    }
    let lease_key = head.lease_key().to_owned();
    let on_store_failure = head.on_store_failure();
    let pools = head.pools.into_valid();
    Some(Domain { name: name?, lease_key, on_store_failure, pools, descriptors })
}

fn twice(name: &str, second: Place, first: Place, report: &mut Report<'_>) {
    let where_first = report.describe(first, second);
    report.push(
        Diagnostic::error(
            second,
            format!("the domain {} stands in two files, first {where_first}", shown(name)),
        )
        .help("put all of its descriptors into one file, or set MERGE_DOMAIN_CONFIG=true")
        .key("domain")
        .related(first, "first here"),
    );
}

/// Warns of a name under `replaces` that no limit has. A report has none: there is nothing to replace.
fn check_replaced(
    descriptors: &[Descriptor],
    replaced: &[(String, Place)],
    report: &mut Report<'_>,
) {
    if replaced.is_empty() {
        return;
    }
    let mut names = HashSet::new();
    collect_names(descriptors, &mut names);
    for (name, place) in replaced.iter().filter(|(name, _)| !names.contains(name.as_str())) {
        report.push(
            Diagnostic::warning(
                *place,
                format!("no limit of this domain is called {}", shown(name)),
            )
            .help("give the limit that is to be replaced this `name`, or remove the line")
            .key("replaces"),
        );
    }
}

fn collect_names<'a>(descriptors: &'a [Descriptor], names: &mut HashSet<&'a str>) {
    for descriptor in descriptors {
        let limits = descriptor.limits.iter().filter(|rule| !matches!(rule.kind, Kind::Report(_)));
        names.extend(limits.filter_map(|rule| rule.name.as_deref()));
        collect_names(&descriptor.descriptors, names);
    }
}
