package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// usual are where targets of this machine are looked for: first an edge, then engines.
var usual = []string{
	"http://127.0.0.1:4000", "http://127.0.0.1:4001", "http://127.0.0.1:4002", "http://127.0.0.1:8000", "http://127.0.0.1:8080",
	"http://127.0.0.1:30000", "http://127.0.0.1:11434", "http://127.0.0.1:1234",
}

// discover finds a target on the usual ports of this machine.
func discover(ctx context.Context) (string, error) {
	for _, base := range usual {
		t, err := newTarget(base, false, nil)
		if err != nil {
			return "", err
		}
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		p, err := t.fetch(short, "/v1/models", nil, nil)
		cancel()
		if err == nil && (p.status == 200 || p.status == 401) {
			return base, nil
		}
	}
	return "", usageError("no edge and no engine answers on the usual ports of this machine: name the target, as in 'penstock bench http://HOST:PORT', or start one with 'penstock' or 'penstock sim'")
}

// preflight looks at the targets before the run: whether they answer, the key is right, the model there, and what there is to
// know of them. What it learns is in the workload, in engines and in count. Every error is one line with ExitUsage.
type preflight struct {
	s    *settings
	send *sender
	work *workload

	engines [2]string // of the targets
	count   tokenCounter
}

func (f *preflight) run(ctx context.Context) error {
	for i, t := range f.send.targets {
		list, err := t.models(ctx, time.Duration(f.s.ReadyCheck)*time.Second)
		if err != nil {
			return err
		}
		want := f.s.Model
		if i == 1 {
			want = cmp.Or(f.s.CompareModel, f.work.model)
			f.work.other = want
		}
		switch {
		case want == "" && len(list) == 0:
			return usageError("%s lists no models: say by --model which one to ask for", t.base)
		case want == "":
			want = list[0]
		}
		if i == 0 {
			f.work.model = want
		}
		f.engines[i] = t.engine(ctx)
		for _, m := range f.s.work.mix {
			if err := f.try(ctx, i, m.d, cmp.Or(m.model, want), list); err != nil {
				return err
			}
		}
	}
	return f.count.find(ctx, f.send.targets[0], f.work.model)
}

// try sends one short request of a dialect, so that what is wrong is said before the load and not ten thousand times after.
func (f *preflight) try(ctx context.Context, target int, d *dialect, model string, list []string) error {
	var points [2][2]float64 // words and the tokens they were
	for i, words := range []int{20, 220} {
		q := f.work.trial(-1-i-2*target, d, model, target, words)
		s := newSample(q, warm, f.send.clock.now())
		_, done := f.send.exchange(ctx, q, d.body(nil, q), &s)
		done()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if q.stream && !d.tokens && (s.status == 400 || s.status == 422 || !s.stream) {
			f.work.unstreamed[d] = true // refused, or answered whole
			if s.status != 200 {
				return f.try(ctx, target, d, model, list)
			}
		}
		if err := refusal(&s, f.send.targets[target].base, model, list); err != nil {
			return err
		}
		if target == 0 && d.tokens {
			f.count.usage = f.count.usage || s.tokens.outSource == TokensFromUsage
		}
		if s.tokens.inSource != TokensFromUsage {
			return nil
		}
		points[i] = [2]float64{float64(words), float64(s.tokens.in)}
	}
	if tokens := points[1][1] - points[0][1]; target == 0 && d == f.s.work.mix[0].d && tokens > 0 {
		f.work.wordsPerToken = (points[1][0] - points[0][0]) / tokens
	}
	return nil
}

// refusal is the error for a first request that was not answered well; nil when it was, or when the target was only busy.
func refusal(s *sample, base, model string, list []string) error {
	known := ""
	if len(list) > 0 {
		known = "; it has " + strings.Join(list[:min(len(list), 8)], ", ")
	}
	switch {
	case s.err == "" || s.err == ErrStream || s.status == 429 || s.status == 503 || s.status == 529:
		return nil
	case s.status == 401 || s.status == 403:
		return usageError("%s refuses the key (status %d %s): give one by PENSTOCK_API_KEY or --api-key", base, s.status, s.code)
	case s.status == 404 && len(list) > 0 && slices.Contains(list, model):
		return usageError("%s does not speak the %s dialect (status 404)", base, s.dialect.name)
	case s.status == 404:
		return usageError("%s has no model %q, or does not speak the %s dialect (status 404)%s", base, model, s.dialect.name, known)
	case s.err == ErrStatus && s.status < 500:
		return usageError("%s refuses a first %s request for %q: status %d %s%s", base, s.dialect.name, model, s.status, s.code, known)
	case s.err == ErrConnect:
		return usageError("%s cannot be reached", base)
	}
	return &ExitError{ExitFailed, fmt.Sprintf("%s failed a first %s request: %s", base, s.dialect.name, ErrorCount{Kind: s.err, Status: statusOf(s), Code: s.code}.Label())}
}

// tokenCounter counts the tokens of answers that do not say them.
type tokenCounter struct {
	usage bool // streams carry usage
	t     *target
	page  string // of the target's tokenizer; empty: none
}

// find looks for a page that counts tokens, where streams carry no usage.
func (c *tokenCounter) find(ctx context.Context, t *target, model string) error {
	if c.usage {
		return nil
	}
	c.t = t
	if n, err := t.tokenize(ctx, t.path+"/tokenize", model, []byte("one two three")); err == nil && n > 0 {
		c.page = t.path + "/tokenize"
	}
	return nil
}

// settle counts the tokens of a completed request: by the target's tokenizer, else by an estimate.
func (c *tokenCounter) settle(q *request, p *reply, s *sample) {
	count := func(text []byte, estimate int) (int, string) {
		if c.page != "" {
			if n, err := c.t.tokenize(context.Background(), c.page, q.model, text); err == nil {
				return n, TokensFromTokenize
			}
		}
		return estimate, TokensEstimated
	}
	n := &s.tokens
	if n.in < 0 && q.d.prompt {
		text := q.prompt()
		n.in, n.inSource = count(text, (len(text)+3)/4)
	}
	if n.out < 0 && q.d.tokens {
		estimate := s.flow.chunks
		if !s.stream {
			estimate = (p.size + 3) / 4
		}
		n.out, n.outSource = count(p.text, estimate)
	}
}
