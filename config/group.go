package config

import (
	"slices"
	"strings"
)

// tagPrefix begins the name of the group of all upstreams that have a tag, as in tag:h100.
const tagPrefix = "tag:"

// InGroup reports whether an upstream belongs to a group: gpu-* are all whose names begin so,
// tag:h100 all that have the tag. What is no group has none.
func InGroup(group, name string, tags []string) bool {
	if tag, ok := strings.CutPrefix(group, tagPrefix); ok {
		return slices.Contains(tags, tag)
	}
	prefix, ok := strings.CutSuffix(group, "*")
	return ok && strings.HasPrefix(name, prefix)
}

// isGroup reports whether a deployment's upstream is a group, by its form.
func isGroup(name string) bool {
	return strings.HasPrefix(name, tagPrefix) || strings.HasSuffix(name, "*")
}

// target is what makes a deployment another one than those beside it.
type target struct{ upstream, served string }

func (d Deployment) target() target { return target{d.Upstream, d.Served} }

// withoutGroups puts the upstreams of each group (InGroup) in its place, but for those that the
// list names itself. The first takes the entry's place and the others follow at the end, so that
// every entry stays where the file has it. A group of none stays.
func withoutGroups(written []Deployment, upstreams []Upstream) []Deployment {
	named := map[string]bool{}
	for i := range upstreams {
		named[upstreams[i].Name] = true
	}
	taken := map[string]bool{} // by the list itself
	for _, d := range written {
		taken[d.Upstream] = true
	}
	all, more := slices.Clone(written), []Deployment(nil)
	targets := make(map[target]bool, len(written))
	for _, d := range written {
		targets[d.target()] = true
	}
	for i, d := range written {
		group := d.Upstream
		if !isGroup(group) || named[group] {
			continue
		}
		first := true
		for j := range upstreams {
			d.Upstream = upstreams[j].Name
			switch {
			case d.Upstream == "" || !InGroup(group, d.Upstream, upstreams[j].Tags) || taken[d.Upstream]:
			case targets[d.target()]: // of a group before it
			case first:
				all[i], first, targets[d.target()] = d, false, true
			default:
				more, targets[d.target()] = append(more, d), true
			}
		}
	}
	return append(all, more...)
}

// Tagged is a tag with the upstreams that have it.
type Tagged struct {
	Tag       string
	Upstreams []string
}

// Tags returns the tags of a file's upstreams, in the order in which they first occur.
func Tags(f *File) (all []Tagged) {
	for i := range f.Upstreams {
		for _, tag := range f.Upstreams[i].Tags {
			at := slices.IndexFunc(all, func(t Tagged) bool { return t.Tag == tag })
			if at < 0 {
				at = len(all)
				all = append(all, Tagged{Tag: tag})
			}
			all[at].Upstreams = append(all[at].Upstreams, f.Upstreams[i].Name)
		}
	}
	return all
}
