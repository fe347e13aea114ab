package sim

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"mime"
	"mime/multipart"
	"strconv"
	"strings"
	"time"

	"penstock/bench/sim/profile"
	"penstock/bench/sim/textgen"
	"penstock/bench/sim/wire"
)

// transcribe answers POST /v1/audio/transcriptions, and whisper.cpp's own path in its own manner.
func (e *Engine) transcribe(x *exchange) {
	whisper := e.p.Family == "whisper"
	f, err := readForm(x.req.get("Content-Type"), x.req.body)
	x.free()
	switch {
	case whisper && (err != nil || f.file == nil || !isAudio(f.file)):
		x.plainText(400, "Invalid request")
		return
	case err != nil:
		x.fail(*profile.Invalid("file", "There was an error parsing the body: %v", err))
		return
	case f.file == nil:
		x.fail(*profile.Invalid("file", "Field required: file"))
		return
	}
	model, ok := e.served(f.fields["model"])
	if !ok {
		x.fail(x.p.UnknownModelError(f.fields["model"]))
		return
	}
	format := f.fields["response_format"]
	switch format {
	case "":
		format = "json"
	case "json", "text", "srt", "vtt", "verbose_json":
	default:
		if !whisper {
			x.fail(*profile.Invalid("response_format", "Unsupported response_format: %s", format))
			return
		}
		format = "json"
	}
	if t := f.fields["temperature"]; t != "" {
		if _, err := strconv.ParseFloat(t, 64); err != nil {
			if whisper {
				x.plainText(500, "500 Internal Server Error\nstof")
				return
			}
			x.fail(*profile.Invalid("temperature", "Input should be a valid number: temperature"))
			return
		}
	}
	q := &chatRequest{model: model, stream: f.fields["stream"] == "true" && x.p.Is("speaches vllm")}
	if q.stream && e.p.Family == "vllm" && format != "json" && format != "text" {
		x.fail(*profile.Invalid("response_format", "%s format doesn't support streaming case", format))
		return
	}
	q.prompt.Reset(e.o.Seed)
	q.prompt.Image(f.file)
	a := &answer{e: e, x: x, q: q, stream: q.stream, prompt: q.prompt.Tokens(), limit: 1}
	defer a.release()
	if !a.enter() || !a.prefill() {
		return
	}
	t := transcript{
		lines: transcribed(textgen.Hash(e.o.Seed, f.file), f.seconds()), seconds: f.seconds(),
		language: f.fields["language"], words: strings.Contains(f.words, "word"), whisper: whisper,
	}
	switch {
	case q.stream && e.p.Family == "vllm":
		q.usage = f.fields["stream_include_usage"] == "true"
		a.chunks(&t)
		return
	case q.stream:
		a.segments(&t, format)
		return
	}
	if gap := a.gap(); gap > 0 && !x.pause(time.Duration(t.count())*gap) {
		return
	}
	a.say(t.count())
	ctype, body := t.render(format)
	a.release()
	x.reply(200, ctype, body)
}

// segments streams a transcript as speaches does: an event a segment, in the asked format, and
// nothing that marks the end.
func (a *answer) segments(t *transcript, format string) {
	x := a.x
	x.sse()
	for i := range t.lines {
		one := *t
		one.lines = t.lines[i : i+1]
		if gap := a.gap(); gap > 0 && (!x.flush() || !x.pause(time.Duration(one.count())*gap)) {
			return
		}
		a.say(one.count())
		_, body := one.render(format)
		if !x.event(bytes.TrimSpace(body)) { // line breaks of srt and vtt go out as they are, as they do there
			return
		}
	}
	if !x.incidents() {
		return
	}
	a.release()
	x.finish()
}

// chunks streams a transcript as vLLM does: a chunk a word, without an index and in one form
// whatever the format; a finish reason at the end of each half minute of sound, because it hears
// that much at a time; and [DONE].
func (a *answer) chunks(t *transcript) {
	x := a.x
	x.sse()
	id, created := "transcribe-"+profile.Hex32(a.e.nextID()), x.now()
	for i, l := range t.lines {
		ends := i == len(t.lines)-1 || t.lines[i+1].start >= 30*(math.Floor(l.start/30)+1)
		words := strings.Fields(l.text)
		for j, w := range words {
			if gap := a.gap(); gap > 0 && (!x.flush() || !x.pause(gap)) {
				return
			}
			a.say(1)
			if !x.event(transcriptChunk(id, created, a.q.model, " "+w, ends && j == len(words)-1)) {
				return
			}
		}
	}
	if a.q.usage {
		u := fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, a.prompt, t.count(),
			a.prompt+t.count())
		if !x.event(append(append(chunkHead(id, created, a.q.model), `,"choices":[],"usage":`+u...), '}')) {
			return
		}
	}
	if !x.t.noDone && !x.event(wire.Done) || !x.incidents() {
		return
	}
	a.release()
	x.finish()
}

func chunkHead(id string, created int64, model string) wire.Members {
	o := wire.Members{'{'}
	o.Text("id", id)
	o.Text("object", "transcription.chunk")
	o.Number("created", int(created))
	o.Text("model", model)
	return o
}

func transcriptChunk(id string, created int64, model, text string, ends bool) []byte {
	delta := wire.Members{'{'}
	delta.Text("content", text)
	choice := wire.Members(`{"delta":` + string(delta) + "}")
	if ends {
		choice.Text("finish_reason", "stop")
		choice.Raw("stop_reason", "null")
	}
	o := chunkHead(id, created, model)
	o.Raw("choices", "["+string(choice)+"}]")
	return append(o, '}')
}

// isAudio reports whether the first bytes are those of a sound file that whisper.cpp's server
// decodes.
func isAudio(b []byte) bool {
	for _, magic := range []string{"RIFF", "ID3", "\xff\xfb", "\xff\xf3", "fLaC", "OggS"} {
		if bytes.HasPrefix(b, []byte(magic)) {
			return true
		}
	}
	return false
}

// pageWhisper is the form that whisper.cpp's server shows people, with the path of its inference.
func (e *Engine) pageWhisper(x *exchange) {
	path := "/inference"
	if e.p.Does("transcriptions") {
		path = "/v1/audio/transcriptions"
	}
	x.reply(200, "text/html", []byte(`
    <html>
    <head>
        <title>Whisper.cpp Server</title>
        <meta charset="utf-8">
    </head>
    <body>
        <h1>Whisper.cpp Server</h1>

        <h2>`+path+`</h2>
        <pre>
    curl `+e.Addr()+path+` -F file="@&lt;file-path&gt;" -F response_format="json"
        </pre>
    </body>
    </html>
    `))
}

// pageSpeaches is what speaches says of itself: its interface, and the models in memory.
func (e *Engine) pageSpeaches(x *exchange) {
	if x.req.path == "/openapi.json" {
		x.json(200, []byte(`{"openapi":"3.1.0","info":{"title":"Speaches","version":"0.0.0+sim"},"paths":{}}`))
		return
	}
	b := []byte(`{"models":[`)
	for _, n := range *e.models.Load() {
		if !e.loaded.Has(n) {
			continue
		}
		if b[len(b)-1] != '[' {
			b = append(b, ',')
		}
		b = wire.AppendString(b, n)
	}
	x.json(200, append(b, "]}"...))
}

// audioForm is a multipart form with one file. It shares nothing with the body.
type audioForm struct {
	file   []byte
	fields map[string]string
	words  string // timestamp_granularities
}

func readForm(ctype string, body []byte) (*audioForm, error) {
	kind, params, err := mime.ParseMediaType(ctype)
	if err != nil {
		return nil, err
	}
	if kind != "multipart/form-data" {
		return nil, fmt.Errorf("want multipart/form-data, got %s", kind)
	}
	f := &audioForm{fields: map[string]string{}}
	r := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	for {
		p, err := r.NextRawPart()
		if err == io.EOF { //nolint:errorlint // wrapped, it is a form that ends early
			return f, nil
		}
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(p)
		if err != nil {
			return nil, err
		}
		switch name := p.FormName(); name {
		case "file":
			f.file = b
		case "timestamp_granularities[]", "timestamp_granularities":
			f.words += string(b) + " "
		default:
			f.fields[name] = string(b)
		}
	}
}

// seconds is how long the audio is: from a WAV head, else guessed at 16 KB a second.
func (f *audioForm) seconds() float64 {
	b := f.file
	if len(b) > 44 && string(b[:4]) == "RIFF" && string(b[8:12]) == "WAVE" {
		if rate := binary.LittleEndian.Uint32(b[28:]); rate > 0 {
			return float64(len(b)-44) / float64(rate)
		}
	}
	return float64(len(b)) / 16000
}
