package config

import (
	"slices"
	"strings"
)

// tagGroupPrefix begins the name of a group that contains all upstreams with a tag, such as tag:h100.
const tagGroupPrefix = "tag:"

// IsInUpstreamGroup reports whether an upstream belongs to a group. The group gpu-* contains all upstreams
// whose names start with gpu-. The group tag:h100 contains all upstreams with the tag h100. IsInUpstreamGroup
// returns false for other formats.
func IsInUpstreamGroup(group, name string, tags []string) bool {
	if tag, ok := strings.CutPrefix(group, tagGroupPrefix); ok {
		return slices.Contains(tags, tag)
	}
	prefix, ok := strings.CutSuffix(group, "*")
	return ok && strings.HasPrefix(name, prefix)
}

func isUpstreamGroup(name string) bool {
	return strings.HasPrefix(name, tagGroupPrefix) || strings.HasSuffix(name, "*")
}

type target struct{ upstream, served string }

func (d Deployment) target() target { return target{d.Upstream, d.Served} }

// expandUpstreamGroups replaces each group (see IsInUpstreamGroup) with its upstreams, except those that the list
// names directly. The first upstream replaces the group's entry and the others are appended, so
// that entries keep their positions in the file. An empty group stays in the list.
func expandUpstreamGroups(written []Deployment, upstreams []Upstream) []Deployment {
	if !slices.ContainsFunc(written, func(d Deployment) bool { return isUpstreamGroup(d.Upstream) }) {
		return slices.Clone(written) // usual case, which must be fast because a file may have a thousand lists
	}
	named := map[string]bool{}
	for i := range upstreams {
		named[upstreams[i].Name] = true
	}
	taken := map[string]bool{} // upstreams named directly in the list
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
		if !isUpstreamGroup(group) || named[group] {
			continue
		}
		first := true
		for j := range upstreams {
			d.Upstream = upstreams[j].Name
			switch {
			case d.Upstream == "" || !IsInUpstreamGroup(group, d.Upstream, upstreams[j].Tags) || taken[d.Upstream]:
			case targets[d.target()]: // an earlier group already contains it
			case first:
				all[i], first, targets[d.target()] = d, false, true
			default:
				more, targets[d.target()] = append(more, d), true
			}
		}
	}
	return append(all, more...)
}

// TaggedUpstreams is a tag and the upstreams with that tag.
type TaggedUpstreams struct {
	Tag       string
	Upstreams []string
}

// UpstreamTags returns all tags of a file's upstreams in the order in which they first occur.
func UpstreamTags(f *File) (all []TaggedUpstreams) {
	for i := range f.Upstreams {
		for _, tag := range f.Upstreams[i].Tags {
			at := slices.IndexFunc(all, func(t TaggedUpstreams) bool { return t.Tag == tag })
			if at < 0 {
				at = len(all)
				all = append(all, TaggedUpstreams{Tag: tag})
			}
			all[at].Upstreams = append(all[at].Upstreams, f.Upstreams[i].Name)
		}
	}
	return all
}
