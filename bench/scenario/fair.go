package scenario

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"penstock/bench/load/client"
)

// keySpec describes an API key of the edge, and the load that the event "fair" sends with that key.
type keySpec struct {
	ID     string `yaml:"id"`
	Weight int    `yaml:"weight"`
	// Loops is the number of concurrent calls made with the key. Each loop sends its next call when
	// its previous response is complete.
	Loops  int `yaml:"loops"`
	Prompt int `yaml:"prompt"` // number of words in each prompt, at about one token per word
	Answer int `yaml:"answer"` // number of tokens in each response
}

// runKeyID is the id of the key that the run uses.
const runKeyID = "bench"

// generateKeySecrets creates a secret for every key in the spec and for the run's key.
func (f *fleet) generateKeySecrets() {
	if len(f.spec.Keys) == 0 {
		return
	}
	f.Key = "sk-" + rand.Text()
	f.keys = map[string]string{runKeyID: f.Key}
	for _, k := range f.spec.Keys {
		f.keys[k.ID] = "sk-" + rand.Text()
	}
}

// appendKeys writes the keys to the edge's configuration.
func (f *fleet) appendKeys(b *strings.Builder) {
	if len(f.spec.Keys) == 0 {
		b.WriteString("auth: none\n")
		return
	}
	b.WriteString("keys:\n")
	for _, k := range append([]keySpec{{ID: runKeyID, Weight: 1}}, f.spec.Keys...) {
		fmt.Fprintf(b, "  - { id: %s, weight: %d, hash: \"sha256:%x\" }\n", k.ID, k.Weight, sha256.Sum256([]byte(f.keys[k.ID])))
	}
}

// modelSlots returns the number of calls that a model's engines serve concurrently, or 0 if there
// is no limit.
func (s *fleetSpec) modelSlots(model string) int {
	n := 0
	for _, e := range s.Engines {
		if e.serves(model) {
			if e.Concurrency == 0 {
				return 0
			}
			n += e.Concurrency
		}
	}
	return n
}

// canTestFairness reports whether the keys send enough load to show how they share a model. At
// least two keys must always have waiting calls, and one key must have few calls.
func (s *fleetSpec) canTestFairness(model string) bool {
	slots, large, small := s.modelSlots(model), 0, 0
	for _, k := range s.Keys {
		switch {
		case k.ID == "" || k.ID == runKeyID || k.Weight < 1 || k.Loops < 1 || k.Prompt < 1 || k.Answer < 1:
			return false
		case k.Loops > slots:
			large++
		default:
			small++
		}
	}
	return slots > 0 && large >= 2 && small >= 1
}

// minFairCalls is the minimum number of calls that must be counted for each key, even on a slow
// machine.
const minFairCalls = 5

// keyService is the service that a key received while all keys sent calls.
type keyService struct {
	Calls   int
	Tokens  int64           // sum over all calls: uncached prompt tokens + 4 × response tokens
	Largest int64           // largest service of a single call
	Waits   []time.Duration // waits for a slot, as reported by the edge
}

func (s *keyService) addCall(tokens int64, wait time.Duration) {
	s.Calls++
	s.Tokens += tokens
	s.Largest = max(s.Largest, tokens)
	s.Waits = append(s.Waits, wait)
}

// medianWait returns the median wait, or 0 if there were no calls.
func (s *keyService) medianWait() time.Duration {
	if len(s.Waits) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(s.Waits))[len(s.Waits)/2]
}

// runFairEvent keeps all keys busy for the duration span, and judges how they have shared the
// model. It starts to count once every key has received a response, because every key then has
// waiting calls. It stops when span is over and enough calls have been answered for each key.
func (f *fleet) runFairEvent(ctx context.Context, model, span string) (seen string, err error) {
	limit, err := time.ParseDuration(span)
	if err != nil {
		return "", err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	keys := f.spec.Keys
	var mu sync.Mutex
	var failed error
	begun, over := false, false
	served := make([]keyService, len(keys))
	all := func(atLeast int) bool {
		return !slices.ContainsFunc(served, func(s keyService) bool { return s.Calls < atLeast })
	}
	timer := time.AfterFunc(limit, func() {
		mu.Lock()
		defer mu.Unlock()
		if over = true; begun && all(minFairCalls) {
			stop()
		}
	})
	defer timer.Stop()
	var loops sync.WaitGroup
	for i, k := range keys {
		for n := range k.Loops {
			loops.Go(func() {
				for call := 0; ctx.Err() == nil; call++ {
					tokens, wait, err := f.sendCall(ctx, model, &k, fmt.Sprintf("%d-%d", n, call))
					mu.Lock()
					switch {
					case ctx.Err() != nil: // counting has ended
					case err != nil:
						failed = fmt.Errorf("a call of %s: %w", k.ID, err)
						stop()
					default:
						served[i].addCall(tokens, wait)
						if !begun && all(1) {
							begun = true
							clear(served)
						}
						if over && begun && all(minFairCalls) {
							stop()
						}
					}
					mu.Unlock()
				}
			})
		}
	}
	loops.Wait()
	switch {
	case failed != nil:
		return "", failed
	case !begun || !over || !all(minFairCalls):
		return "", errors.New("the run ended before enough calls were answered")
	}
	return judgeFairness(keys, served, f.spec.modelSlots(model))
}

// judgeFairness compares each key's service with its weight. It uses tokens and relative waits
// rather than absolute times.
//
// A key that always has a waiting call must be served in proportion to its weight. The tolerance is
// 5 % plus the calls that occupy slots when counting starts and when it ends. A key that has fewer
// calls than there are slots has no backlog. Such a key must wait less than half as long as the key
// that waits longest.
func judgeFairness(keys []keySpec, served []keyService, slots int) (seen string, err error) {
	var tokens, largest int64
	weights := 0
	var longest time.Duration
	for i, k := range keys {
		if k.Loops > slots {
			weights += k.Weight
			tokens += served[i].Tokens
			largest = max(largest, served[i].Largest)
			longest = max(longest, served[i].medianWait())
		}
	}
	var parts []string
	var wrong []error
	for i, k := range keys {
		if k.Loops <= slots {
			wait := served[i].medianWait()
			parts = append(parts, fmt.Sprintf("%s waited %d ms (the longest: %d ms)", k.ID, wait.Milliseconds(), longest.Milliseconds()))
			if wait > longest/2 {
				wrong = append(wrong, fmt.Errorf("%s, which asks for little, waited %d ms, and the longest of the others %d ms",
					k.ID, wait.Milliseconds(), longest.Milliseconds()))
			}
			continue
		}
		due := float64(tokens) * float64(k.Weight) / float64(weights)
		part := fmt.Sprintf("%s %.1f %% of the tokens (due: %.1f %%)", k.ID,
			100*float64(served[i].Tokens)/float64(tokens), 100*float64(k.Weight)/float64(weights))
		parts = append(parts, part)
		if off := float64(served[i].Tokens) - due; max(off, -off) > due/20+float64(int64(slots)*largest) {
			wrong = append(wrong, fmt.Errorf("not by weight: %s", part))
		}
	}
	return strings.Join(parts, ", "), errors.Join(wrong...)
}

// sendCall sends a call with a key, and returns its service and its wait. No two calls with the
// same key start with the same word, so that no cache makes a call cheaper.
func (f *fleet) sendCall(ctx context.Context, model string, k *keySpec, name string) (tokens int64, wait time.Duration, err error) {
	t, err := client.NewTarget(f.URL, false, client.BearerHeader(f.keys[k.ID]))
	if err != nil {
		return 0, 0, err
	}
	body := fmt.Appendf(nil, `{"model":%q,"messages":[{"role":"user","content":%q}],"sim":{"tokens":%d}}`,
		model, k.ID+"-"+name+strings.Repeat(" word", k.Prompt-1), k.Answer)
	p, err := t.FetchWithoutTimeout(ctx, t.Path+"/v1/chat/completions", body, t.Headers)
	switch {
	case err != nil:
		return 0, 0, errors.New(client.DescribeNetworkError(err))
	case p.Status != 200:
		return 0, 0, fmt.Errorf("status %d", p.Status)
	}
	var answer struct {
		Usage struct {
			Prompt  int64 `json:"prompt_tokens"`
			Answer  int64 `json:"completion_tokens"`
			Details struct {
				Cached int64 `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(p.Body, &answer); err != nil || answer.Usage.Answer == 0 {
		return 0, 0, errors.New("the answer has no usage")
	}
	u := answer.Usage
	return u.Prompt - u.Details.Cached + 4*u.Answer, p.Queue, nil
}
