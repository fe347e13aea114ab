package engine

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
	"penstock/upstreams/http1"
)

// GenerationVerdict is the verdict of a generation probe.
type GenerationVerdict uint8

// Only GenerationOK and GenerationFailed are evidence about the engine's health.
const (
	GenerationOK       GenerationVerdict = iota
	GenerationFailed                     // the response broke off, timed out or was an error
	GenerationRefused                    // the engine is full or busy with other clients
	GenerationRejected                   // the engine rejects the probe, or the kind of model has no probe
	GenerationAborted                    // the edge aborted the probe
	GenerationVerdictCount
)

// String returns the verdict as a metric label.
func (g GenerationVerdict) String() string {
	return [...]string{"ok", "failed", "refused", "rejected", "aborted"}[g]
}

// GenerationStep is one request of a generation probe and the check of its response.
type GenerationStep struct {
	Path          string
	ContentType   string
	Body          []byte
	streamed      bool
	checkResponse func(page any) bool // checks the whole response; if nil, any 200 response with a body passes
}

const maxGenerationBytes = 1 << 20

// SetProbePriority sets a priority in the requests of a probe. Use it for engines that order their
// queue by priority, because some of them serve requests without a priority last.
func SetProbePriority(steps []GenerationStep, number int) {
	for i := range steps {
		if body := steps[i].Body; len(body) > 0 && body[0] == '{' {
			steps[i].Body = append([]byte(`{"priority":`+strconv.Itoa(number)+","), body[1:]...)
		}
	}
}

// GenerationSteps returns the requests that check whether an engine generates with a kind of model.
// Send each later request only if the engine rejects the previous request. If toEnd is true, a chat
// model must complete its response. Otherwise its first token is enough. GenerationSteps returns
// nil if probes of this kind would be too expensive (images), or if the engine has no path for the
// operation.
func GenerationSteps(kind string, p *Profile, served string, toEnd bool) (steps []GenerationStep) {
	prompt, tokens := "ping", 1
	if toEnd {
		prompt, tokens = "Count from 1 to 100.", 16 // prevents the model from finishing immediately
	}
	add := func(op string, members map[string]any, streamed bool, good func(any) bool) {
		path := p.Path(op)
		if path == "" {
			return
		}
		members["model"] = served
		if body, err := json.Marshal(members); err == nil { // never fails for strings and numbers
			steps = append(steps, GenerationStep{path, "application/json", body, streamed, good})
		}
	}
	switch kind {
	case config.ModelKindChat, "":
		limit := p.TokenLimitMember()
		if limit == "" {
			limit = config.TokenLimitMaxTokens
		}
		messages := []any{map[string]any{"role": "user", "content": prompt}}
		add(config.OpChat, map[string]any{"messages": messages, limit: tokens, "stream": true}, true, nil)
		add(OpCompletions, map[string]any{"prompt": prompt, config.TokenLimitMaxTokens: tokens, "stream": true}, true, nil)
	case config.ModelKindEmbedding:
		add(config.OpEmbeddings, map[string]any{"input": "ping"}, false, checkNonEmptyList("data"))
	case config.ModelKindRerank:
		documents := "documents"
		if p.HasQuirk(config.QuirkRanksTexts) {
			documents = "texts"
		}
		add(config.OpRerank, map[string]any{"query": "ping", documents: []string{"ping"}}, false, isNonEmptyRanking)
	case config.ModelKindSpeech:
		add(config.OpSpeech, map[string]any{"input": "a"}, false, nil)
	case config.ModelKindTranscription:
		if path := p.Path(config.OpTranscriptions); path != "" {
			contentType, body := silentTranscription(served)
			steps = append(steps, GenerationStep{Path: path, ContentType: contentType, Body: body})
		}
	}
	return steps
}

// checkNonEmptyList returns a check that at least one of the fields is a non-empty list.
func checkNonEmptyList(names ...string) func(any) bool {
	return func(page any) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			for range fieldValues(page, name+".0") {
				return true
			}
			return false
		})
	}
}

// isNonEmptyRanking reports whether a response is a non-empty ranking. SGLang responds with a bare
// list.
func isNonEmptyRanking(page any) bool {
	bare, _ := page.([]any)
	return len(bare) > 0 || checkNonEmptyList("results", "data")(page)
}

// silentWAVHeader is the header of a WAV file with silentWAVBytes bytes of samples: one second of
// 16-bit mono PCM at 16,000 Hz.
const (
	silentWAVBytes  = 32000
	silentWAVHeader = "RIFF\x24\x7d\x00\x00WAVEfmt \x10\x00\x00\x00" +
		"\x01\x00\x01\x00\x80\x3e\x00\x00\x00\x7d\x00\x00\x02\x00\x10\x00data\x00\x7d\x00\x00"
)

// silentTranscription returns a transcription form with one second of silence.
func silentTranscription(served string) (contentType string, form []byte) {
	const boundary = "penstock-generation-probe"
	var b bytes.Buffer
	field := func(name, more, value string) {
		b.WriteString("--" + boundary + "\r\nContent-Disposition: form-data; name=\"" + name + "\"" + more)
		b.WriteString("\r\n\r\n" + value + "\r\n")
	}
	field("model", "", served)
	field("response_format", "", "json")
	field("file", "; filename=\"silence.wav\"\r\nContent-Type: audio/wav", silentWAVHeader+string(make([]byte, silentWAVBytes)))
	b.WriteString("--" + boundary + "--\r\n")
	return "multipart/form-data; boundary=" + boundary, b.Bytes()
}

// GenerationResult is the result of a generation probe. If the verdict is not GenerationOK, it
// includes the reason.
type GenerationResult struct {
	Verdict GenerationVerdict
	Reason  string // an http1.Failure's reason, or "status"
	Status  int    // HTTP status of the response
	// NotFound means that the response was a 404 that does not name a model.
	NotFound bool
}

// GenerateFunc sends one step and judges the response. It is a function type so that tests can
// simulate an engine without a socket.
type GenerateFunc func(ctx context.Context, profile *Profile, s *GenerationStep, limit time.Duration) GenerationResult

// NewGenerateFunc returns a GenerateFunc that sends requests over a transport. Every request uses a
// new connection.
func NewGenerateFunc(t *http1.Transport) GenerateFunc {
	return func(ctx context.Context, profile *Profile, s *GenerationStep, limit time.Duration) GenerationResult {
		x, end := t.ExchangeWithContext(ctx)
		defer end()
		until := time.Now().Add(limit)
		accept := "*/*"
		if s.streamed {
			accept = "text/event-stream"
		}
		err := x.Send(&http1.Request{
			Method: "POST", Path: s.Path, ContentType: s.ContentType, Accept: accept, Body: [][]byte{s.Body},
			ConnectTimeout: limit, WriteTimeout: limit, NoReplay: true,
		})
		if err == nil {
			err = x.Await(until)
		}
		result := GenerationResult{Verdict: GenerationFailed}
		if err == nil {
			result.Status = x.Status()
			result.Verdict, result.NotFound, err = s.judge(x, profile, until)
		}
		var f *http1.Failure
		switch {
		case ctx.Err() != nil: // the edge aborted the probe, so even a complete response is inconclusive
			return GenerationResult{Verdict: GenerationAborted}
		case err == nil:
			if result.Verdict != GenerationOK {
				result.Reason = "status"
				if result.Status == 200 {
					result.Reason = http1.ReasonInvalid
				}
			}
		case errors.As(err, &f) && f.Kind == http1.KindAborted:
			result.Verdict = GenerationAborted
		case errors.Is(err, http1.ErrNoBytesYet):
			result.Reason = http1.ReasonTimeout
		default:
			result.Reason = FailureReason(err)
		}
		return result
	}
}

func (s *GenerationStep) judge(x *http1.Exchange, profile *Profile, until time.Time) (verdict GenerationVerdict, notFound bool, err error) {
	status := x.Status()
	streamed := status == 200 && bytes.HasPrefix(x.Header("Content-Type"), []byte("text/event-stream"))
	body, seen := []byte(nil), 0
	for {
		if len(body) > maxGenerationBytes {
			return GenerationFailed, false, http1.ErrPageTooLarge
		}
		body = slices.Grow(body, 4<<10)
		n, err := x.Read(body[len(body):cap(body)], until)
		body = body[:len(body)+n]
		for streamed {
			end := bytes.IndexByte(body[seen:], '\n')
			if end < 0 {
				break
			}
			verdict, done := judgeStreamLine(bytes.TrimSpace(body[seen:seen+end]), profile)
			if seen += end + 1; done {
				return verdict, false, nil
			}
		}
		switch {
		case err == io.EOF && streamed: //nolint:errorlint // a wrapped io.EOF is the cause of a Failure
			return GenerationFailed, false, nil // the response is incomplete
		case err == io.EOF: //nolint:errorlint // io.EOF is returned unwrapped
			return s.judgeFullResponse(status, body, profile), status == 404 && !mentionsModel(body), nil
		case err != nil:
			return GenerationFailed, false, err
		}
	}
}

// mentionsModel reports whether an error is about a model. Such an error says nothing about the
// engine's other models.
func mentionsModel(body []byte) bool { return bytes.Contains(bytes.ToLower(body), []byte("model")) }

// judgeStreamLine judges one line of a stream of chat or completion chunks. done reports whether
// the verdict is final.
func judgeStreamLine(line []byte, profile *Profile) (verdict GenerationVerdict, done bool) {
	data, ok := bytes.CutPrefix(line, []byte("data:"))
	if data = bytes.TrimSpace(data); !ok || len(data) == 0 || data[0] != '{' {
		return GenerationOK, false
	}
	page, err := parseJSON(data)
	if err != nil {
		return GenerationFailed, true
	}
	if hasError(page) {
		return judgeError(200, page, profile), true
	}
	return GenerationOK, hasFinishReason(page)
}

// judgeFullResponse judges a response that is not a stream.
func (s *GenerationStep) judgeFullResponse(status int, body []byte, profile *Profile) GenerationVerdict {
	page, err := parseJSON(body)
	switch {
	case status != 200 || err == nil && hasError(page):
		return judgeError(status, page, profile)
	case s.checkResponse == nil && !s.streamed:
		if len(body) > 0 {
			return GenerationOK
		}
	case err == nil && (s.streamed && hasFinishReason(page) || s.checkResponse != nil && s.checkResponse(page)):
		return GenerationOK
	}
	return GenerationFailed
}

func hasError(page any) (is bool) {
	for v := range fieldValues(page, "error") {
		is = v != "" && v != false
	}
	return is
}

// hasFinishReason reports whether a chunk or a completion has a finish reason.
func hasFinishReason(page any) bool { return fieldText(page, "choices.*.finish_reason") != "" }

// judgeError judges an error response. A stream always begins with status 200, so an error within
// the stream contains the actual status.
func judgeError(status int, page any, profile *Profile) GenerationVerdict {
	kind, message := fieldText(page, "error.type"), fieldText(page, "error.message")
	if status == 200 {
		status = 500
		for _, field := range []string{"error.code", "error.status", "code", "status"} {
			n, _ := sumField(page, field)
			if n == 0 {
				n, _ = strconv.ParseFloat(fieldText(page, field), 64)
			}
			if n >= 400 && n < 600 {
				status = int(n)
				break
			}
		}
	}
	switch {
	case status == 429 || status == 503 || status == 529,
		profile.IsOverload(status, kind, message), profile.IsTemporary(status, kind, message):
		return GenerationRefused
	// The edge's credential is wrong, so every call to the engine fails.
	case status == 401 || status == 402 || status == 403:
		return GenerationFailed
	case status/100 == 4 || profile.IsClientFault(status, kind, message):
		return GenerationRejected
	}
	return GenerationFailed
}
