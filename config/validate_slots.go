package config

import (
	"slices"
	"strings"
)

// If `concurrency` is a map, the upstream has separate pools, and a pool that the map omits has no
// slots. Calls that need the omitted pool would always be refused, as if that pool were full.

// checkSlots checks that a model's upstreams have slots for its kinds of calls.
func (c modelChecks) checkSlots(path string, m *Model) {
	if len(m.Deployments) == 0 || c.positions.HasUnknownNames("upstreams", "name") || c.positions.IsBroken(path+".deployments") {
		return
	}
	text, audio := false, false
	for _, endpoint := range m.Endpoints() {
		isAudio := strings.HasPrefix(endpoint, "/v1/audio/") || endpoint == "/v1/realtime"
		text, audio = text || !isAudio, audio || isAudio
	}
	if text {
		c.checkPoolSlots(path, m, "text", "every call for text", func(p Concurrency) int { return p.Text })
	}
	if audio {
		c.checkPoolSlots(path, m, "audio", "every call", func(p Concurrency) int { return p.Audio })
	}
	vision := func(p Concurrency) int { return p.Vision }
	switch {
	case m.Kind != ModelKindChat || !text:
	case m.Vision != nil || slices.Contains(m.InputModalities, "image"):
		c.checkPoolSlots(path, m, "vision", "every call with an image", vision)
	case m.InputModalities == nil:
		if missing, some := c.upstreamsWithout(m, vision); !some && len(missing) > 0 {
			c.check.warn(path+".deployments",
				"no upstream of the model has slots for vision, so every call with an image would be refused as if it were full: say input_modalities: [text], or add vision to concurrency %s",
				c.positions.DescribeLine(missing[0]+".concurrency", path))
		}
	}
}

// checkPoolSlots checks that at least one of the model's upstreams has slots in a pool, and warns
// about upstreams that have none. calls describes the calls that need the pool.
func (c modelChecks) checkPoolSlots(path string, m *Model, pool, calls string, slots func(Concurrency) int) {
	missing, some := c.upstreamsWithout(m, slots)
	switch {
	case len(missing) == 0:
	case !some:
		c.check.fail(path+".deployments",
			"no upstream of the model has slots for %s, so %s would be refused as if it were full: add %s to concurrency %s, or write one number for all pools",
			pool, calls, pool, c.positions.DescribeLine(missing[0]+".concurrency", path))
	default:
		for _, u := range missing {
			c.check.warn(u+".concurrency", "there are no slots for %s, so the model %s gets none of %s here: add %s", pool, m.ID,
				strings.Replace(calls, "every call", "its calls", 1), pool)
		}
	}
}

// upstreamsWithout returns the paths of the model's upstreams that have no slots in a pool, and
// whether other upstreams have some. An upstream that does not exist, or whose slots could not be
// read, counts as having slots, because another check reports the problem.
func (c modelChecks) upstreamsWithout(m *Model, slots func(Concurrency) int) (missing []string, some bool) {
	for _, d := range m.Deployments {
		i, ok := c.upstreams[d.Upstream]
		if !ok || c.positions.IsOrContainsBroken(entryPath("upstreams", i)+".concurrency") {
			some = true
			continue
		}
		if p := c.file.Upstreams[i].Concurrency; p.IsSet() && p.Shared == 0 && slots(p) == 0 {
			missing = append(missing, entryPath("upstreams", i))
		} else {
			some = true
		}
	}
	return slices.Compact(missing), some
}
