package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"penstock/translate/jsonx"
)

// usual are where targets of this machine are looked for: first an edge, then engines.
var usual = []string{
	"http://127.0.0.1:4000", "http://127.0.0.1:4001", "http://127.0.0.1:4002", "http://127.0.0.1:8000", "http://127.0.0.1:8080",
	"http://127.0.0.1:30000", "http://127.0.0.1:11434", "http://127.0.0.1:1234",
}

// page is the answer to a small request outside the load.
type page struct {
	status int
	body   []byte
}

// fetch gets or, with a body, posts a page of a target, whatever its path. It is for what happens beside the load.
func (t *target) fetch(ctx context.Context, path string, body []byte, headers []byte) (*page, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c, err := t.open(ctx, true)
	if err != nil {
		return nil, err
	}
	defer c.release(false)
	nc := c.Conn // the function may still run when c has been released
	defer context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })()
	method := "GET"
	if body != nil {
		method = "POST"
	}
	head := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: penstock-bench\r\nConnection: close\r\n%s", method, path, t.host, headers)
	if body != nil {
		head = fmt.Appendf(head, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	if _, err := c.Write(append(append(head, "\r\n"...), body...)); err != nil {
		return nil, err
	}
	if err := c.readHead(); err != nil {
		return nil, err
	}
	text, err := c.readAll()
	if err != nil {
		return nil, err
	}
	return &page{c.head.StatusCode(), clone(text)}, nil
}

// discover finds a target on the usual ports of this machine.
func discover(ctx context.Context) (string, error) {
	for _, base := range usual {
		t, err := newTarget(base, false)
		if err != nil {
			return "", err
		}
		t.clock = &clock{time.Now()}
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		p, err := t.fetch(short, "/v1/models", nil, nil)
		cancel()
		if err == nil && (p.status == 200 || p.status == 401) {
			return base, nil
		}
	}
	return "", usageError("no edge and no engine answers on the usual ports of this machine: name the target, as in 'penstock bench http://HOST:PORT', or start one with 'penstock' or 'penstock sim'")
}

// models lists the models of a target. An error says what to do.
func (t *target) models(ctx context.Context, wait time.Duration) ([]string, error) {
	for begin := time.Now(); ; {
		p, err := t.fetch(ctx, t.path+"/v1/models", nil, t.headers)
		switch {
		case err != nil && time.Since(begin) < wait && ctx.Err() == nil:
			sleep(ctx, 500*time.Millisecond)
			continue
		case err != nil:
			return nil, usageError("%s cannot be reached: %s", t.base, reason(err))
		case p.status == 401 || p.status == 403:
			return nil, usageError("%s refuses the key (status %d): give one by PENSTOCK_API_KEY or --api-key", t.base, p.status)
		case p.status != 200:
			return nil, nil // it has no such page; --model then says what to ask for
		}
		var doc jsonx.Doc
		_ = doc.Parse(p.body, jsonx.Options{}) // what is no JSON is empty, and lists nothing
		var out []string
		for it := doc.Root().Get("data").Iter(); it.Next(); {
			if id := it.Value().Get("id"); id.IsString() {
				out = append(out, string(id.AppendText(nil)))
			}
		}
		return out, nil
	}
}

// reason is a network error in few words.
func reason(err error) string {
	var op *net.OpError
	var dns *net.DNSError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused: nothing listens there"
	case errors.As(err, &dns):
		return "no such host: " + dns.Name
	case errors.As(err, &op) && op.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "it closed the connection without an answer"
	}
	return err.Error()
}

// pages tell engines apart, in this order: the first that answers 200 is it.
var pages = []struct{ path, engine string }{
	{"/sim/stats", "sim"}, {"/props", "llamacpp"}, {"/get_server_info", "sglang"}, {"/api/version", "ollama"}, {"/version", "vllm"},
}

// engine says what a target is, from pages that only one kind of server has; empty when none answers.
func (t *target) engine(ctx context.Context) string {
	if p, err := t.fetch(ctx, t.path+"/openapi.json", nil, nil); err == nil && p.status == 200 && strings.Contains(string(p.body), "Penstock") {
		return "edge"
	}
	for _, x := range pages {
		if p, err := t.fetch(ctx, t.path+x.path, nil, t.headers); err == nil && p.status == 200 {
			return x.engine
		}
	}
	return ""
}

// preflight looks at the targets before the run: whether they answer, the key is right, the model there, and what there is to
// know of them. Every error is one line with ExitUsage.
func (r *run) preflight(ctx context.Context) error {
	for i, t := range r.targets {
		list, err := t.models(ctx, time.Duration(r.s.ReadyCheck)*time.Second)
		if err != nil {
			return err
		}
		want := r.s.Model
		if i == 1 {
			want = orText(r.s.CompareModel, r.work.model)
			r.work.other = want
		}
		switch {
		case want == "" && len(list) == 0:
			return usageError("%s lists no models: say by --model which one to ask for", t.base)
		case want == "":
			want = list[0]
		}
		if i == 0 {
			r.work.model = want
		}
		r.facts.engines[i] = t.engine(ctx)
		for _, m := range r.s.mix {
			name := orText(m.model, want)
			if err := r.try(ctx, i, m.d, name, list); err != nil {
				return err
			}
		}
	}
	return r.findTokenizer(ctx)
}

// try sends one short request of a dialect, so that what is wrong is said before the load and not ten thousand times after.
func (r *run) try(ctx context.Context, target int, d *dialect, model string, list []string) error {
	rng := r.work.rng(1<<40 + target)
	var points [2][2]float64 // words and the tokens they were
	for i, words := range []int{20, 220} {
		q := &request{id: -1 - i - 2*target, d: d, model: model, stream: r.work.streams(d), form: r.s.form, target: target, outWanted: 2, voice: r.s.Voice, tools: r.work.texts[d], audio: r.work.media.audio, audioS: r.work.media.audioS}
		q.messages = []message{{role: "user", text: appendWords([]byte(r.work.tag(q)), rng, words)}}
		s := newSample(q, warm)
		s.scheduled = r.clock.now()
		wire := d.body(nil, q)
		_, done := r.exchange(ctx, q, wire, &s)
		done()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if q.stream && !d.tokens && (s.status == 400 || s.status == 422 || !s.stream) {
			r.work.unstreamed[d] = true // refused, or answered whole
			if s.status != 200 {
				return r.try(ctx, target, d, model, list)
			}
		}
		if err := r.refusal(&s, model, list); err != nil {
			return err
		}
		if target == 0 && d.tokens {
			r.facts.usage = r.facts.usage || s.outSource == TokensFromUsage
		}
		if s.inSource != TokensFromUsage {
			return nil
		}
		points[i] = [2]float64{float64(words), float64(s.in)}
	}
	if tokens := points[1][1] - points[0][1]; target == 0 && d == r.s.mix[0].d && tokens > 0 {
		r.work.wordsPerToken = (points[1][0] - points[0][0]) / tokens
	}
	return nil
}

// refusal is the error for a first request that was not answered well; nil when it was, or when the target was only busy.
func (r *run) refusal(s *sample, model string, list []string) error {
	base := r.targets[s.target].base
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

// findTokenizer looks for a page that counts tokens, where streams carry no usage.
func (r *run) findTokenizer(ctx context.Context) error {
	if r.facts.usage {
		return nil
	}
	t := r.targets[0]
	if n, err := t.tokenize(ctx, t.path+"/tokenize", r.work.model, []byte("one two three")); err == nil && n > 0 {
		r.facts.tokenizer = t.path + "/tokenize"
	}
	return nil
}

var errTokenize = errors.New("not a tokenizer's answer")

// tokenize counts the tokens of a text with the page of vLLM, SGLang ("prompt", "count") and llama.cpp ("content", "tokens").
func (t *target) tokenize(ctx context.Context, path, model string, text []byte) (int, error) {
	body := jsonx.AppendStringS([]byte(`{"model":`), model)
	for _, member := range []string{"prompt", "content"} {
		body = append(append(append(body, `,"`...), member...), `":`...)
		body = jsonx.AppendString(body, text)
	}
	p, err := t.fetch(ctx, path, append(body, '}'), t.headers)
	if err != nil {
		return 0, err
	}
	var doc jsonx.Doc
	if p.status != 200 || doc.Parse(p.body, jsonx.Options{}) != nil {
		return 0, errTokenize
	}
	if n, ok := doc.Root().Get("count").Int(); ok {
		return int(n), nil
	}
	if tokens := doc.Root().Get("tokens"); tokens.IsArray() {
		return tokens.Len(), nil
	}
	return 0, errTokenize
}

// count counts the tokens of a request whose answer did not say: by the target's tokenizer, else by an estimate. It is called
// when the request has ended.
func (r *run) count(q *request, p *reply, s *sample) {
	ask := func(text []byte) (int, bool) {
		if r.facts.tokenizer == "" {
			return 0, false
		}
		n, err := r.targets[0].tokenize(context.Background(), r.facts.tokenizer, q.model, text)
		return n, err == nil
	}
	if s.in < 0 {
		var ok bool
		if s.in, ok = ask(q.prompt()); ok {
			s.inSource = TokensFromTokenize
		} else {
			s.in, s.inSource = (len(q.prompt())+3)/4, TokensEstimated
		}
	}
	if s.out >= 0 || !q.d.tokens {
		return
	}
	var ok bool
	switch s.out, ok = ask(p.text); {
	case ok:
		s.outSource = TokensFromTokenize
	case s.stream:
		s.out, s.outSource = s.chunks, TokensEstimated
	default:
		s.out, s.outSource = (p.size+3)/4, TokensEstimated
	}
}
