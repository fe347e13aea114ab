package load

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"penstock/bench/exit"
	"penstock/bench/load/client"
	"penstock/bench/load/workload"
	"penstock/bench/result"
)

// defaultTargets lists the local addresses that discoverTarget scans. Edges precede engines.
var defaultTargets = []string{
	"http://127.0.0.1:4000", "http://127.0.0.1:4001", "http://127.0.0.1:4002", "http://127.0.0.1:8000",
	"http://127.0.0.1:8080",
	"http://127.0.0.1:30000", "http://127.0.0.1:11434", "http://127.0.0.1:1234",
}

// discoverTarget scans the usual ports for a target on this machine.
func discoverTarget(ctx context.Context) (string, error) {
	for _, base := range defaultTargets {
		t, err := client.NewTarget(base, false, nil)
		if err != nil {
			return "", err
		}
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		p, err := t.Fetch(short, "/v1/models", nil, nil)
		cancel()
		if err == nil && (p.Status == 200 || p.Status == 401) {
			return base, nil
		}
	}
	return "", exit.Usagef("no edge and no engine answers on the usual ports of this machine: name the target, as in 'penstock bench http://HOST:PORT', or start one with 'penstock' or 'penstock sim'")
}

// preflight checks the targets before the run. It checks that the targets respond, that the key is
// valid and that the model exists. It stores what it finds in work and engines. Each error is one
// line, with exit code exit.Usage.
type preflight struct {
	s    *settings
	send *client.Sender
	work *workload.Workload

	engines [2]string // the kind of each target, as returned by DetectEngine
}

func (f *preflight) checkTargets(ctx context.Context) error {
	for i, t := range f.send.Targets {
		list, err := t.ListModels(ctx, f.s.ReadyCheck)
		if err != nil {
			return err
		}
		want := f.s.Model
		if i == 1 {
			want = cmp.Or(f.s.CompareModel, f.work.Model)
			f.work.Other = want
		}
		switch {
		case want == "" && len(list) == 0:
			return exit.Usagef("%s lists no models: say by --model which one to ask for", t.Base)
		case want == "":
			want = list[0]
		}
		if i == 0 {
			f.work.Model = want
		}
		f.engines[i] = t.DetectEngine(ctx)
		for _, m := range f.s.work.Mix {
			if err := f.tryDialect(ctx, i, m.D, cmp.Or(m.Model, want), list); err != nil {
				return err
			}
		}
	}
	return nil
}

// tryDialect sends two short requests in a dialect. Errors are therefore reported once, before the
// load, rather than ten thousand times during the load.
func (f *preflight) tryDialect(ctx context.Context, target int, d *client.Dialect, model string, list []string) error {
	// for each request, the number of words sent and the number of tokens that the target reported
	var points [2][2]float64
	for i, words := range []int{20, 220} {
		q := f.work.PreflightRequest(-1-i-2*target, d, model, target, words)
		s := client.NewSample(q, warmupStage, f.send.Clock.Now())
		_, done := f.send.Exchange(ctx, q, d.Body(nil, q), &s)
		done()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if q.Stream && !d.Tokens && (s.Status == 400 || s.Status == 422 || !s.Stream) {
			f.work.Unstreamed[d] = true // the stream was refused, or the response was not streamed
			if s.Status != 200 {
				return f.tryDialect(ctx, target, d, model, list)
			}
		}
		if err := firstRequestError(&s, target, f.send.Targets[target].Base, model, list); err != nil {
			return err
		}
		if s.Tokens.InSource != result.TokensFromUsage {
			return nil
		}
		points[i] = [2]float64{float64(words), float64(s.Tokens.In)}
	}
	if tokens := points[1][1] - points[0][1]; target == 0 && d == f.s.work.Mix[0].D && tokens > 0 {
		f.work.WordsPerToken = (points[1][0] - points[0][0]) / tokens
	}
	return nil
}

var modelFlags = [...]string{"--model", "--compare-model"}

// firstRequestError returns an error if a preflight request failed. It returns nil if the target
// was merely busy.
func firstRequestError(s *client.Sample, target int, base, model string, list []string) error {
	known := ""
	if len(list) > 0 {
		known = fmt.Sprintf("; it has %s: name one by %s", strings.Join(list[:min(len(list), 8)], ", "), modelFlags[target])
	}
	switch {
	case s.Err == "" || s.Err == result.ErrStream || s.Status == 429 || s.Status == 503 || s.Status == 529:
		return nil
	case s.Status == 401 || s.Status == 403:
		return exit.Usagef("%s refuses the key (status %d %s): give one by PENSTOCK_API_KEY or --api-key", base, s.Status, s.Code)
	case s.Status == 404 && len(list) > 0 && slices.Contains(list, model):
		return exit.Usagef("%s does not speak the %s dialect (status 404)", base, s.Dialect.Name)
	case s.Status == 404:
		return exit.Usagef("%s has no model %q, or does not speak the %s dialect (status 404)%s", base, model, s.Dialect.Name, known)
	case s.Err == result.ErrStatus && s.Status < 500:
		return exit.Usagef("%s refuses a first %s request for %q: status %d %s%s", base, s.Dialect.Name, model, s.Status,
			s.Code, known)
	case s.Err == result.ErrConnect:
		return exit.Usagef("%s cannot be reached", base)
	}
	return exit.NewError(exit.Failed, fmt.Sprintf("%s failed a first %s request: %s", base, s.Dialect.Name,
		result.ErrorCount{Kind: s.Err, Status: failureStatus(s), Code: s.Code}.Label()))
}

// estimateTokens estimates the token counts that the target did not report for a completed request.
func estimateTokens(q *client.Request, p *client.Reply, s *client.Sample) {
	n := &s.Tokens
	if n.In < 0 && q.D.Prompt {
		n.In, n.InSource = (len(q.PromptText())+3)/4, result.TokensEstimated
	}
	if n.Out < 0 && q.D.Tokens {
		n.Out, n.OutSource = s.Flow.Chunks, result.TokensEstimated
		if !s.Stream {
			n.Out = (p.Size + 3) / 4
		}
	}
}
