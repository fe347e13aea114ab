package engine

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"penstock/config"
	"penstock/upstreams/http1"
)

// cachePages returns a GetPageFunc that fetches every page only once and caches the result, even an
// error. Use it for a single detection.
func cachePages(get http1.GetPageFunc) http1.GetPageFunc {
	type answer struct {
		page http1.Page
		err  error
	}
	pages := map[string]answer{}
	return func(ctx context.Context, path string, timeout time.Duration) (http1.Page, error) {
		if a, ok := pages[path]; ok {
			return a.page, a.err
		}
		got, err := get(ctx, path, timeout)
		got.Body = bytes.Clone(got.Body)
		pages[path] = answer{got, err}
		return got, err
	}
}

// PageReader reads the pages of an engine according to its profile.
type PageReader struct {
	Get     http1.GetPageFunc
	Profile *Profile
	Timeout time.Duration // timeout per page
}

var errNoPage = errors.New("the engine has no such page")

func (r *PageReader) readJSON(ctx context.Context, path string) (any, error) {
	page, err := r.Get(ctx, path, r.Timeout)
	if err != nil {
		return nil, err
	}
	return decodePage(page)
}

func decodePage(page http1.Page) (any, error) {
	if page.Status != 200 {
		return nil, errNoPage
	}
	return parseJSON(page.Body)
}

// ReadVersion reads the engine's version. It returns "" if the engine does not report it.
func (r *PageReader) ReadVersion(ctx context.Context) string {
	v := r.Profile.spec.Version
	if v.Path == "" {
		return ""
	}
	content, err := r.readJSON(ctx, v.Path)
	if err != nil {
		return ""
	}
	return fieldText(content, v.Field)
}

// ReadSlots reads how many requests the engine runs concurrently, and how many prompt tokens fit in its
// cache (0 if not reported). ok is false if the engine does not report the number of requests.
func (r *PageReader) ReadSlots(ctx context.Context) (n, cacheTokens int, ok bool) {
	for i := range r.Profile.spec.Capacity {
		v := &r.Profile.spec.Capacity[i]
		content, err := r.readJSON(ctx, v.Path)
		if err != nil {
			continue
		}
		if n, ok := sumField(content, v.Field); ok && n >= 1 {
			each := 0.0
			if v.SlotTokens != "" {
				each, _ = sumField(content, v.SlotTokens)
			}
			return clampCount(n), clampTokens(n * each), true
		}
	}
	return 0, 0, false
}

// ReadMaxResidents reads how many models fit in the engine's memory. ok is false if the engine does not
// report this number.
func (r *PageReader) ReadMaxResidents(ctx context.Context) (n int, ok bool) {
	v := r.Profile.spec.Residents
	if v.Path == "" {
		return 0, false
	}
	content, err := r.readJSON(ctx, v.Path)
	if err != nil {
		return 0, false
	}
	n64, ok := sumField(content, v.Field)
	return clampCount(n64), ok && n64 >= 1
}

// IsAsleep reports whether the engine reports sleep mode.
func (r *PageReader) IsAsleep(ctx context.Context) bool {
	v := r.Profile.spec.Asleep
	if v.Path == "" {
		return false
	}
	content, err := r.readJSON(ctx, v.Path)
	if err != nil {
		return false
	}
	asleep, _ := fieldMatches(content, v.Field)
	return asleep
}

// ReadLoad reads the engine's load. It tries the load pages in turn, starting at index first, until one
// of them can be read. It returns that page's path and index. Pass the index as first in the next
// call.
func (r *PageReader) ReadLoad(ctx context.Context, first int) (l EngineLoad, at int, path string, ok bool) {
	sources := r.Profile.spec.Load
	for i := range sources {
		at := (first + i) % len(sources)
		page, err := r.Get(ctx, sources[at].Path, r.Timeout)
		if err != nil || page.Status != 200 {
			continue
		}
		if l, ok := readLoad(&sources[at], page.Body); ok {
			return l, at, sources[at].Path, true
		}
	}
	return EngineLoad{}, first, "", false
}

// HasCounters reports whether the profile defines progress counters.
func (r *PageReader) HasCounters() bool {
	return slices.ContainsFunc(r.Profile.spec.Load, func(l config.EngineLoad) bool { return len(l.Progress) > 0 })
}

// ReadCounters reads the sum of the progress counters from the first page that contains any, and
// returns the page's path. counts is false if no page could be read or no page contains counters.
func (r *PageReader) ReadCounters(ctx context.Context) (sum float64, path string, counts bool) {
	sources := r.Profile.spec.Load
	for i := range sources {
		if len(sources[i].Progress) == 0 {
			continue
		}
		page, err := r.Get(ctx, sources[i].Path, r.Timeout)
		if err != nil || page.Status != 200 {
			continue
		}
		if l, _ := readLoad(&sources[i], page.Body); l.Counts {
			return l.Progress, sources[i].Path, true
		}
	}
	return 0, "", false
}

// FailureDetail explains why a connection to an engine failed, in addition to FailureReason. It
// returns "" for other failures.
func FailureDetail(err error) string {
	if f, ok := errors.AsType[*http1.Failure](err); ok {
		return f.Detail()
	}
	return ""
}

// FailureReason returns the reason why a page or a generation probe failed: "status" for an error
// status, a Failure's reason, or ReasonInvalid for an invalid response.
func FailureReason(err error) string {
	var f *http1.Failure
	switch {
	case err == nil:
		return "status"
	case errors.As(err, &f):
		return f.Reason
	}
	return http1.ReasonInvalid
}
