package sim

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"penstock/bench/sim/audio"
	"penstock/bench/sim/generate"
	"penstock/bench/sim/pages"
	"penstock/bench/sim/profile"
	"penstock/bench/sim/textgen"
	"penstock/bench/sim/wire"
)

// serveTranscription answers POST /v1/audio/transcriptions and, like whisper.cpp's server, POST
// /inference.
func serveTranscription(x *exchange) {
	e := x.e
	whisper := e.p.Family == "whisper"
	f, err := audio.ReadForm(x.req.headerValue("Content-Type"), x.req.body)
	x.releaseBody()
	switch {
	case whisper && (err != nil || f.File == nil || !audio.IsAudio(f.File)):
		x.sendReply(x.p.PlainTextReply(400, "Invalid request"))
		return
	case err != nil:
		x.replyError(*profile.InvalidParam("file", "There was an error parsing the body: %v", err))
		return
	case f.File == nil:
		x.replyError(*profile.InvalidParam("file", "Field required: file"))
		return
	}
	model, ok := e.resolveModel(f.Fields["model"])
	if !ok {
		x.replyError(x.p.UnknownModelError(f.Fields["model"]))
		return
	}
	format := f.Fields["response_format"]
	switch format {
	case "":
		format = "json"
	case "json", "text", "srt", "vtt", "verbose_json":
	default:
		if !whisper {
			x.replyError(*profile.InvalidParam("response_format", "Unsupported response_format: %s", format))
			return
		}
		format = "json"
	}
	if t := f.Fields["temperature"]; t != "" {
		if _, err := strconv.ParseFloat(t, 64); err != nil {
			if whisper {
				x.sendReply(x.p.PlainTextReply(500, "500 Internal Server Error\nstof"))
				return
			}
			x.replyError(*profile.InvalidParam("temperature", "Input should be a valid number: temperature"))
			return
		}
	}
	q := &generate.Request{Model: model, Stream: f.Fields["stream"] == "true" && x.p.MatchesAny("speaches vllm")}
	if q.Stream && e.p.Family == "vllm" && format != "json" && format != "text" {
		x.replyError(*profile.InvalidParam("response_format", "%s format doesn't support streaming case", format))
		return
	}
	q.Prompt.Reset(e.o.Seed)
	q.Prompt.AddImage(f.File)
	a := newAnswer(x, q)
	defer a.releaseSlot()
	if !a.acquireSlot() || !a.waitPrefill() {
		return
	}
	t := audio.Transcript{
		Lines: audio.InventSegments(textgen.Hash(e.o.Seed, f.File), f.Seconds()), Seconds: f.Seconds(),
		Language: f.Fields["language"], Words: strings.Contains(f.Words, "word"), Whisper: whisper,
	}
	switch {
	case q.Stream && e.p.Family == "vllm":
		q.Usage.Last = f.Fields["stream_include_usage"] == "true"
		a.streamTranscriptChunks(&t)
		return
	case q.Stream:
		a.streamTranscriptSegments(&t, format)
		return
	}
	if gap := a.tokenGap(); gap > 0 && !x.client.pause(time.Duration(t.Count())*gap) {
		return
	}
	a.addTokens(t.Count())
	ctype, body := renderTranscript(&t, format)
	a.releaseSlot()
	x.reply(200, ctype, body)
}

// transcriptTypes contains two Content-Types for each format: the usual type, and the type that
// whisper.cpp's server sends.
var transcriptTypes = map[string][2]string{
	"text":         {"text/plain; charset=utf-8", "text/html; charset=utf-8"},
	"srt":          {"text/plain; charset=utf-8", "application/x-subrip"},
	"vtt":          {"text/vtt", "text/vtt"},
	"json":         {"application/json", "application/json"},
	"verbose_json": {"application/json", "application/json"},
}

// renderTranscript renders a transcript in one of the five formats.
func renderTranscript(t *audio.Transcript, format string) (ctype string, body []byte) {
	t.SetDerivedFields()
	ctype = transcriptTypes[format][0]
	if t.Whisper {
		ctype = transcriptTypes[format][1]
	}
	return ctype, pages.RenderAnswer("transcript", format, t)
}

// streamTranscriptSegments streams a transcript as speaches does. It sends one event for each
// segment in the requested format, and no final [DONE].
func (a *answer) streamTranscriptSegments(t *audio.Transcript, format string) {
	x := a.x
	x.beginEventStream()
	for i := range t.Lines {
		one := *t
		one.Lines = t.Lines[i : i+1]
		if gap := a.tokenGap(); gap > 0 && (!x.out.flush() || !x.client.pause(time.Duration(one.Count())*gap)) {
			return
		}
		a.addTokens(one.Count())
		_, body := renderTranscript(&one, format)
		// As in speaches, the line breaks of srt and vtt are sent unescaped.
		if !x.sendEvent("", bytes.TrimSpace(body)) {
			return
		}
	}
	if !x.injectIncidents() {
		return
	}
	a.releaseSlot()
	x.finishBody()
}

// streamTranscriptChunks streams a transcript as vLLM does. It sends one chunk for each word,
// followed by [DONE]. The chunks have no index, and are the same for every requested format.
// Because vLLM processes half a minute at a time, a finish reason follows each half minute of
// audio.
func (a *answer) streamTranscriptChunks(t *audio.Transcript) {
	x := a.x
	x.beginEventStream()
	id, created := "transcribe-"+profile.Hex32(a.e.nextID()), unixNow()
	for i, l := range t.Lines {
		ends := i == len(t.Lines)-1 || t.Lines[i+1].Start >= 30*(math.Floor(l.Start/30)+1)
		words := strings.Fields(l.Text)
		for j, w := range words {
			if gap := a.tokenGap(); gap > 0 && (!x.out.flush() || !x.client.pause(gap)) {
				return
			}
			a.addTokens(1)
			if !x.sendEvent("", transcriptChunk(id, created, a.q.Model, " "+w, ends && j == len(words)-1)) {
				return
			}
		}
	}
	if a.q.Usage.Last {
		u := fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, a.state.Prompt, t.Count(),
			a.state.Prompt+t.Count())
		if !x.sendEvent("", *beginTranscriptChunk(id, created, a.q.Model).AddRaw(`,"choices":[],"usage":`, u, `}`)) {
			return
		}
	}
	if !x.t.NoDone && !x.sendEvent("", wire.DoneData) || !x.injectIncidents() {
		return
	}
	a.releaseSlot()
	x.finishBody()
}

func beginTranscriptChunk(id string, created int64, model string) *wire.JSONBuilder {
	o := wire.JSONBuilder(`{"id":"` + id + `","object":"transcription.chunk","created":`)
	return o.Int(int(created)).AddRaw(`,"model":`).Quote(model)
}

func transcriptChunk(id string, created int64, model, text string, ends bool) []byte {
	o := beginTranscriptChunk(id, created, model)
	o.AddRaw(`,"choices":[{"delta":{"content":`).Quote(text).AddRaw(`}`)
	if ends {
		o.AddRaw(`,"finish_reason":"stop","stop_reason":null`)
	}
	return *o.AddRaw(`}]}`)
}
