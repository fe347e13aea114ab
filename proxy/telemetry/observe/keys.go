package observe

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strconv"
	"sync/atomic"
)

// The first maxKeySeries keys have separate series. All other keys, and removed keys, share
// otherAccount. The number of series is therefore limited, no matter what clients send.
const (
	maxKeySeries = 1000
	otherAccount = "other"
	noAccount    = "-" // no key was required, or the key was not recognized
)

type keySeries struct {
	calls, prompt, cached, completion atomic.Int64

	refusals copyOnWriteMap[string, *atomic.Int64] // keyed by reason, from a closed set
}

// AccountName returns the key under which a call is counted. For a call made with a token, this is
// the template that defines the token's rights. For other calls, it is the call's key.
func (r *Record) AccountName() string { return cmp.Or(r.Template, r.Key, noAccount) }

func (s *callSeries) accountSeries(name string) *keySeries {
	if k, ok := s.keys.get(name); ok {
		return k
	}
	k, _ := s.keys.get(otherAccount)
	return k
}

// setKeys creates the series of keys and drops all other series. The caller must hold mu.
func (s *callSeries) setKeys(keys []string) {
	keys = slices.Concat([]string{noAccount, otherAccount}, keys[:min(len(keys), maxKeySeries)])
	s.keys.update(func(all map[string]*keySeries) {
		wanted := nameSet(keys)
		maps.DeleteFunc(all, func(name string, _ *keySeries) bool { return !wanted[name] })
		for _, name := range keys {
			if all[name] == nil {
				all[name] = new(keySeries)
			}
		}
	})
}

func (s *callSeries) countKey(r *Record) {
	k := s.accountSeries(r.AccountName())
	k.calls.Add(1)
	k.prompt.Add(int64(r.PromptTokens))
	k.cached.Add(int64(r.CachedTokens))
	k.completion.Add(int64(r.CompletionTokens))
	reason := r.refusalReason()
	if reason == "" {
		return
	}
	n, ok := k.refusals.get(reason)
	if !ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		if n, ok = k.refusals.get(reason); !ok {
			n = new(atomic.Int64)
			k.refusals.update(func(all map[string]*atomic.Int64) { all[reason] = n })
		}
	}
	n.Add(1)
}

// refusalReason returns the limit that the call exceeded, or the error code. If the call was not
// refused, it returns "".
func (r *Record) refusalReason() string {
	if r.Outcome == OutcomeLimited || r.Attempts == 0 && r.Outcome != OutcomeOK && r.Outcome != OutcomeClientGone {
		return cmp.Or(r.Limit, orDash(r.Code))
	}
	return ""
}

// AppendKeyMetrics appends the key metrics. running counts the running calls by AccountName.
func (c *Calls) AppendKeyMetrics(b *bytes.Buffer, running map[string]int) {
	all := c.series.keys.all()
	inflight := map[string]int{}
	for name, n := range running {
		if all[name] == nil {
			name = otherAccount
		}
		inflight[name] += n
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		k := all[name]
		sample := func(family string, n int64, pairs ...string) {
			AppendSample(b, family, strconv.FormatInt(n, 10), append([]string{"key", name}, pairs...)...)
		}
		sample("penstock_key_calls_total", k.calls.Load())
		sample("penstock_key_calls_inflight", int64(inflight[name]))
		sample("penstock_key_tokens_total", k.prompt.Load(), "kind", "prompt")
		sample("penstock_key_tokens_total", k.cached.Load(), "kind", "cached")
		sample("penstock_key_tokens_total", k.completion.Load(), "kind", "completion")
		refusals := k.refusals.all()
		for _, reason := range slices.Sorted(maps.Keys(refusals)) {
			sample("penstock_key_refusals_total", refusals[reason].Load(), "reason", reason)
		}
	}
}
