package upstreams

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"time"

	"penstock/config"
	"penstock/upstreams/engine"
	"penstock/upstreams/http1"
)

// A generation probe is the edge's own tiny piece of work for an engine: one token of chat (or
// some, and a good end, where answers broke off in the middle), an embedding of one word. Health
// probes ask whether an engine answers; this one asks whether it does its work, without a client's
// request that might be the reason why it does not.
//
//	Upstream.probeGeneration   starts one in a slot, at most one a second
//	generationOf               what to send to an engine for a kind of model
//	generationOver             sends it over a transport and judges the answer
//
// The verdict goes to the breaker (health.generation), and into metrics of its own: it is no
// client's call.

// Generation is what a generation probe came to.
type Generation uint8

// The verdicts. Only OK and Failed say something about the engine.
const (
	GenerationOK       Generation = iota
	GenerationFailed              // it broke off, timed out, or was answered with an error
	GenerationRefused             // the engine has no room, or works for others
	GenerationRejected            // the engine does not take this probe, or there is none for the kind of model
	GenerationAborted             // ended from this side
	generationCount
)

// String returns the verdict as a metric label.
func (g Generation) String() string {
	return [...]string{"ok", "failed", "refused", "rejected", "aborted"}[g]
}

const (
	// generationPause is the least time between two generation probes of an upstream.
	generationPause = time.Second
	// generationLimit bounds a probe where the failed call's own limit is longer; generationLoading
	// where it may have to wait for a model to be loaded.
	generationLimit   = 10 * time.Second
	generationLoading = time.Minute
	// generationMax bounds the answer.
	generationMax = 1 << 20
)

// generator is the state of an upstream's generation probes, guarded by its mutex.
type generator struct {
	served  string        // the model of the last call that failed
	limit   time.Duration // how long that call might have waited for its first token
	running bool
	doubted int // failures in a row when probeDoubt was last set to come; 0: it is not due
	begun   time.Time
	last    *LastGeneration
}

// LastGeneration is what the newest generation probe came to.
type LastGeneration struct {
	At           time.Time `json:"at"`
	Result       string    `json:"result"`
	Reason       string    `json:"reason,omitempty"` // why not: a Failure's reason, or "status"
	Status       int       `json:"status,omitempty"` // what the engine answered with
	Milliseconds float64   `json:"milliseconds"`
}

// probeGeneration starts a generation probe in a slot of the pool, which the caller has taken and
// which the probe gives back. It is false, and the slot stays the caller's, when there may be none
// now: another one runs or ran less than a second ago, the upstream is out, or the edge has no
// probe for its kind of model.
func (u *Upstream) probeGeneration(pool Pool, trial bool) bool {
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	g, p := &u.generator, u.prober
	if p == nil || p.generate == nil || g.running || now.Sub(g.begun) < generationPause || u.Mode() != ModeReady {
		return false
	}
	if s := u.State(); s != StateUp && s != StatePending {
		return false
	}
	profile := u.engine.Load()
	work := firstToken
	if u.health.broken {
		work = shortAnswer
	}
	steps := generationOf(u.settings.Load().kinds[g.served], profile, g.served, work)
	if len(steps) == 0 {
		u.health.generation(GenerationRejected, trial, now)
		u.publish(u.health.state, "calls fail", now)
		return false
	}
	g.running, g.begun = true, now
	limit := generationLimit
	if profile.Has(config.QuirkLoadsOnDemand) {
		limit = generationLoading
	}
	if g.limit > 0 && work == firstToken {
		limit = min(limit, g.limit)
	}
	go u.set.o.Guard.Once(guardGeneration, func() { u.generate(p, profile, steps, limit, pool, trial) })
	return true
}

// generate runs a generation probe and books its verdict.
func (u *Upstream) generate(p *prober, profile *engine.Profile, steps []generationStep, limit time.Duration, pool Pool, trial bool) {
	verdict, last := GenerationAborted, LastGeneration{}
	defer func() { // whatever the booking comes to
		u.giveBack(pool, false)
		u.set.o.OnFree(u)
		if trial { // calls that looked meanwhile were kept out
			u.set.o.OnRoom(u)
		}
	}()
	defer func() { u.bookGeneration(verdict, &last, trial) }()
	u.set.o.Guard.Point(guardGeneration)
	for i := range steps {
		begun := time.Now()
		u.answers.Begin()
		verdict, last = p.generate(p.ctx, profile, &steps[i], limit)
		progressed := u.answers.End()
		if verdict == GenerationFailed && last.Reason == http1.ReasonTimeout && (progressed || u.busyForOthers(begun)) {
			verdict = GenerationRefused // the probe waited its turn, as long as one client makes it
		}
		if verdict != GenerationRejected {
			return
		}
	}
}

// busyForOthers reports whether the engine has said since then that requests wait, and that it has
// some which are not of this edge.
func (u *Upstream) busyForOthers(since time.Time) bool {
	r := u.report.Load()
	return r != nil && r.At.After(since) && r.Waiting > 0 && r.others > 0
}

// bookGeneration books a probe's verdict.
func (u *Upstream) bookGeneration(verdict Generation, last *LastGeneration, trial bool) {
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	if trial {
		defer u.trial.Store(false)
	}
	u.generated[verdict].Inc()
	g := &u.generator
	g.running = false
	last.At, last.Result, last.Milliseconds = now, verdict.String(), float64(now.Sub(g.begun).Microseconds())/1000
	g.last = last
	u.health.generation(verdict, trial, now)
	u.publish(u.health.state, "generation probe: "+last.Result, now)
}

// probeDoubtLater calls probeDoubt soon, if there is reason to. Called with mu held.
func (u *Upstream) probeDoubtLater() {
	if u.prober != nil && u.generator.doubted == 0 && u.health.inDoubt() {
		u.generator.doubted = u.health.failures
		time.AfterFunc(doubtPause, u.probeDoubt)
	}
}

// probeDoubt sends a generation probe if there has been no success since, and a slot is free. Where
// calls still come, it waits for what they tell.
func (u *Upstream) probeDoubt() {
	defer u.set.o.Guard.Catch(guardRoom, nil)
	u.mu.Lock()
	more := u.health.failures != u.generator.doubted || u.slots.Load() != 0
	u.generator.doubted = 0
	wanted := u.health.inDoubt() && !u.retiring.Load()
	if wanted && more { // calls still come, and tell by themselves
		u.probeDoubtLater()
	}
	u.mu.Unlock()
	if !wanted || more || !u.takeSlot(PoolText) {
		return
	}
	if !u.probeGeneration(PoolText, false) {
		u.giveBack(PoolText, false)
		u.set.o.OnFree(u)
	}
}

// trialHeadStart is how long calls that wait are given to be the trial of a half-open breaker,
// before a generation probe is it.
const trialHeadStart = 100 * time.Millisecond

// probeTrial makes a generation probe the trial of a half-open breaker.
func (u *Upstream) probeTrial() {
	defer u.set.o.Guard.Catch(guardRoom, nil)
	defer u.retrialLater() // where the probe could not be sent, or decides nothing
	if !u.trialMissing() || !u.trial.CompareAndSwap(false, true) {
		return
	}
	taken := u.takeSlot(PoolText)
	if taken && u.probeGeneration(PoolText, true) {
		return
	}
	if taken {
		u.giveBack(PoolText, true)
	} else {
		u.trial.Store(false)
	}
	u.set.o.OnRoom(u) // calls that looked meanwhile were kept out
}

// probeTrialLater calls probeTrial soon, where not every call may be the trial of the half-open
// breaker.
func (u *Upstream) probeTrialLater() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.prober != nil && u.trialMissing() {
		u.trialTimer = time.AfterFunc(trialHeadStart, u.probeTrial)
	}
}

// retrialLater calls retrial later, where the breaker is half-open still.
func (u *Upstream) retrialLater() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.prober != nil && u.trialMissing() {
		u.trialTimer = time.AfterFunc(generationPause, u.retrial)
	}
}

// trialMissing reports whether the breaker is half-open, and not every call may be its trial.
func (u *Upstream) trialMissing() bool {
	until, barred := u.openUntil.Load(), u.barred.Load()
	return until != breakerClosed && ticks(time.Now()) >= until && !u.retiring.Load() && barred != nil && len(*barred) > 0
}

// generationStep is one request that a generation probe may consist of, and what a good answer to
// it is.
type generationStep struct {
	path        string
	contentType string
	body        []byte
	streamed    bool
	good        func(page any) bool // of the whole answer; nil: any answer with status 200 and a body
}

// chatWork is what a probe of a chat model asks for.
type chatWork struct {
	prompt string
	tokens int
}

// firstToken shows that an engine begins its answers; shortAnswer, whose prompt keeps a model from
// being done at once, that it also ends them.
var (
	firstToken  = chatWork{"ping", 1}
	shortAnswer = chatWork{"Count from 1 to 100.", 16}
)

// generationOf returns what to send to see whether an engine works for a kind of model: one
// request, or several of which the next is sent where the engine rejects the one before. It is
// empty where generating is too expensive to be a probe (images) or the engine has no path for it.
func generationOf(kind string, p *engine.Profile, served string, work chatWork) (steps []generationStep) {
	add := func(op string, members map[string]any, streamed bool, good func(any) bool) {
		path := p.Path(op)
		if path == "" {
			return
		}
		members["model"] = served
		body, err := json.Marshal(members)
		if err != nil {
			bug("generation probe: " + err.Error())
			return
		}
		steps = append(steps, generationStep{path, "application/json", body, streamed, good})
	}
	switch kind {
	case config.KindChat, "":
		limit := p.TokenLimitMember()
		if limit == "" {
			limit = config.TokenLimitMaxTokens
		}
		add(config.OpChat, map[string]any{"messages": []any{map[string]any{"role": "user", "content": work.prompt}}, limit: work.tokens, "stream": true}, true, nil)
		add(engine.OpCompletions, map[string]any{"prompt": work.prompt, config.TokenLimitMaxTokens: work.tokens, "stream": true}, true, nil)
	case config.KindEmbedding:
		add(config.OpEmbeddings, map[string]any{"input": "ping"}, false, lists("data"))
	case config.KindRerank:
		add(config.OpRerank, map[string]any{"query": "ping", "documents": []string{"ping"}}, false, lists("results", "data"))
	case config.KindSpeech:
		add(config.OpSpeech, map[string]any{"input": "a"}, false, nil)
	case config.KindTranscription:
		if path := p.Path(config.OpTranscriptions); path != "" {
			contentType, body := silence(served)
			steps = append(steps, generationStep{path: path, contentType: contentType, body: body})
		}
	}
	return steps
}

// lists returns a check that one of the fields is a list with something in it.
func lists(fields ...string) func(any) bool {
	return func(page any) bool {
		return slices.ContainsFunc(fields, func(field string) (found bool) {
			engine.EachField(page, field+".0", func(any) { found = true })
			return found
		})
	}
}

// silence returns a form with a second of silence to transcribe.
func silence(served string) (contentType string, form []byte) {
	const boundary, rate = "penstock-generation-probe", 16000
	const data = 2 * rate // one second of 16 bits
	var b bytes.Buffer
	field := func(name, more, value string) {
		b.WriteString("--" + boundary + "\r\nContent-Disposition: form-data; name=\"" + name + "\"" + more + "\r\n\r\n" + value)
	}
	field("model", "", served+"\r\n")
	field("response_format", "", "json\r\n")
	field("file", "; filename=\"silence.wav\"\r\nContent-Type: audio/wav", "RIFF")
	little := func(size int, values ...int) {
		for _, v := range values {
			for i := range size {
				b.WriteByte(byte(v >> (8 * i)))
			}
		}
	}
	little(4, 36+data)
	b.WriteString("WAVEfmt ")
	little(4, 16)
	little(2, 1, 1) // PCM, one channel
	little(4, rate, 2*rate)
	little(2, 2, 16)
	b.WriteString("data")
	little(4, data)
	b.Write(make([]byte, data))
	b.WriteString("\r\n--" + boundary + "--\r\n")
	return "multipart/form-data; boundary=" + boundary, b.Bytes()
}

// generateFunc sends one step and judges the answer. It is a function so that tests can play an
// engine without a socket.
type generateFunc func(ctx context.Context, profile *engine.Profile, s *generationStep, limit time.Duration) (Generation, LastGeneration)

// generationOver returns a generateFunc over a transport. Every probe has a connection of its own.
func generationOver(t *http1.Transport) generateFunc {
	return func(ctx context.Context, profile *engine.Profile, s *generationStep, limit time.Duration) (Generation, LastGeneration) {
		x, end := t.ExchangeWhile(ctx)
		defer end()
		until := time.Now().Add(limit)
		accept := "*/*"
		if s.streamed {
			accept = "text/event-stream"
		}
		err := x.Send(&http1.Request{
			Method: "POST", Path: s.path, ContentType: s.contentType, Accept: accept, Body: [][]byte{s.body},
			ConnectTimeout: limit, WriteTimeout: limit, NoReplay: true,
		})
		if err == nil {
			err = x.Await(until)
		}
		verdict, last := GenerationFailed, LastGeneration{}
		if err == nil {
			last.Status = x.Status()
			verdict, err = s.judge(x, profile, until)
		}
		var f *http1.Failure
		switch {
		case ctx.Err() != nil: // whatever came before the end from this side: it decides nothing
			verdict, last = GenerationAborted, LastGeneration{}
		case err == nil:
			if verdict != GenerationOK {
				last.Reason = "status"
				if last.Status == 200 {
					last.Reason = http1.ReasonInvalid
				}
			}
		case errors.As(err, &f) && f.Kind == http1.Aborted:
			verdict = GenerationAborted
		case errors.Is(err, http1.ErrNotYet):
			last.Reason = http1.ReasonTimeout
		default:
			last.Reason = reasonOf(err)
		}
		return verdict, last
	}
}

// judge reads the answer to a step.
func (s *generationStep) judge(x *http1.Exchange, profile *engine.Profile, until time.Time) (Generation, error) {
	status := x.Status()
	streamed := status == 200 && bytes.HasPrefix(x.Header("Content-Type"), []byte("text/event-stream"))
	body, seen := []byte(nil), 0
	for {
		if len(body) > generationMax {
			return GenerationFailed, http1.ErrPageTooLarge
		}
		body = slices.Grow(body, 4<<10)
		n, err := x.Read(body[len(body):cap(body)], until)
		body = body[:len(body)+n]
		for streamed {
			end := bytes.IndexByte(body[seen:], '\n')
			if end < 0 {
				break
			}
			verdict, done := judgeLine(bytes.TrimSpace(body[seen:seen+end]), profile)
			if seen += end + 1; done {
				return verdict, nil
			}
		}
		switch {
		case err == io.EOF && streamed: //nolint:errorlint // only the bare value ends a reply; wrapped, it is a failure's cause
			return GenerationFailed, nil // it has come to no end of its own
		case err == io.EOF: //nolint:errorlint // likewise
			return s.judgeWhole(status, body, profile), nil
		case err != nil:
			return GenerationFailed, err
		}
	}
}

// judgeLine looks at one line of a stream of chat or completion chunks. done is true once the
// stream has shown what it is worth.
func judgeLine(line []byte, profile *engine.Profile) (verdict Generation, done bool) {
	data, ok := bytes.CutPrefix(line, []byte("data:"))
	if data = bytes.TrimSpace(data); !ok || len(data) == 0 || data[0] != '{' {
		return GenerationOK, false
	}
	page, err := engine.ParseJSON(data)
	if err != nil {
		return GenerationFailed, true
	}
	if failed(page) {
		return judgeError(200, page, profile), true
	}
	return GenerationOK, finished(page)
}

// judgeWhole looks at an answer that is no stream.
func (s *generationStep) judgeWhole(status int, body []byte, profile *engine.Profile) Generation {
	page, err := engine.ParseJSON(body)
	switch {
	case status != 200 || err == nil && failed(page):
		return judgeError(status, page, profile)
	case s.good == nil && !s.streamed:
		if len(body) > 0 {
			return GenerationOK
		}
	case err == nil && (s.streamed && finished(page) || s.good != nil && s.good(page)):
		return GenerationOK
	}
	return GenerationFailed
}

// failed reports whether an engine has put an error where an answer should be.
func failed(page any) (is bool) {
	engine.EachField(page, "error", func(v any) { is = v != nil && v != "" && v != false })
	return is
}

// finished reports whether a chunk or a completion says why it ends.
func finished(page any) bool { return engine.FieldText(page, "choices.*.finish_reason") != "" }

// judgeError says what an error is worth. The status of an error in a stream, which is 200 by its
// head, is in the error.
func judgeError(status int, page any, profile *engine.Profile) Generation {
	kind, message := engine.FieldText(page, "error.type"), engine.FieldText(page, "error.message")
	if status == 200 {
		status = 500
		for _, field := range []string{"error.code", "error.status", "code", "status"} {
			n, _ := engine.SumField(page, field)
			if n == 0 {
				n, _ = strconv.ParseFloat(engine.FieldText(page, field), 64)
			}
			if n >= 400 && n < 600 {
				status = int(n)
				break
			}
		}
	}
	switch {
	case status == 429 || status == 503 || status == 529 || profile.Overload(status, kind, message) || profile.NotNow(status, kind, message):
		return GenerationRefused
	case status == 401 || status == 402 || status == 403: // our credential, not the probe
		return GenerationFailed
	case status/100 == 4 || profile.ClientFault(status, kind, message):
		return GenerationRejected
	}
	return GenerationFailed
}
