package sim

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"mime"
	"mime/multipart"
	"strconv"
	"strings"
	"time"
)

const (
	sampleRate = 24000
	wordTime   = 60 * time.Millisecond // of speech
)

// speech answers POST /v1/audio/speech with a sine tone, a piece of it for every word, its pitch depending on the voice.
func (e *Engine) speech(x *exchange) {
	p := parsers.Get()
	defer parsers.Put(p)
	v, q, ok := e.smallRequest(x, p)
	if !ok {
		return
	}
	input := string(v.GetStringBytes("input"))
	if input == "" {
		x.fail(*invalid("input", "Field required: input"))
		return
	}
	speed := 1.0
	if s := v.Get("speed"); s != nil {
		if speed = s.GetFloat64(); speed < 0.25 || speed > 4 {
			x.fail(*invalid("speed", "speed must be in [0.25, 4.0]"))
			return
		}
	}
	format := string(v.GetStringBytes("response_format"))
	if format == "" {
		format = "wav"
	}
	ctype := map[string]string{"wav": "audio/wav", "pcm": "audio/pcm", "mp3": "audio/mpeg"}[format]
	if ctype == "" {
		x.fail(*invalid("response_format", "Unsupported response_format: %s", format))
		return
	}
	q.prompt.addString(input)
	voice := hash64(1, v.GetStringBytes("voice"))
	sse := string(v.GetStringBytes("stream_format")) == "sse"
	x.free()

	q.stream = true // it is cancelled like one
	a := &answer{e: e, x: x, q: q, prompt: q.prompt.tokens(), limit: 1}
	defer a.release()
	if !a.enter() || !a.prefill() {
		return
	}
	if sse {
		x.sse()
	} else {
		x.head(200, ctype, -1)
	}
	if format == "wav" && !sse {
		x.put(wavHeader())
	}
	t := tone{step: 2 * math.Pi * float64(180+voice%240) / sampleRate}
	samples := int(wordTime.Seconds() * sampleRate / speed)
	due := time.Now()
	words := strings.Fields(input)
	for i := range words {
		var piece []byte
		if format == "mp3" {
			piece = silentFrames(max(1, samples/1152))
		} else {
			piece = t.next(samples)
		}
		if i > 0 {
			gap := a.gap()
			due = due.Add(gap)
			if gap > 0 && (!x.flush() || !x.pauseUntil(due)) || !a.keep(&due) {
				return
			}
		}
		a.say(1)
		if sse {
			if !x.event([]byte(`{"type":"speech.audio.delta","audio":"` + base64.StdEncoding.EncodeToString(piece) + `"}`)) {
				return
			}
			continue
		}
		if !x.incidents() {
			return
		}
		x.events++
		x.put(piece)
		if len(x.out) > 32<<10 && !x.flush() {
			return
		}
	}
	if sse && !x.event(fmt.Appendf(nil, `{"type":"speech.audio.done","usage":{"input_tokens":%d,"output_tokens":%d,"total_tokens":%d}}`, a.prompt, a.spoken, a.prompt+a.spoken)) {
		return
	}
	if !x.incidents() {
		return
	}
	a.release()
	x.finish()
}

// wavHeader is the head of a WAV file whose length nobody knows yet: 16 bit, one channel.
func wavHeader() []byte {
	b := append([]byte(nil), "RIFF\xff\xff\xff\xffWAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00"...)
	b = binary.LittleEndian.AppendUint32(b, sampleRate)
	b = binary.LittleEndian.AppendUint32(b, 2*sampleRate)
	return append(b, "\x02\x00\x10\x00data\xff\xff\xff\xff"...)
}

// tone is a sine wave that goes on from piece to piece.
type tone struct{ phase, step float64 }

func (t *tone) next(n int) []byte {
	b := make([]byte, 0, 2*n)
	for range n {
		b = binary.LittleEndian.AppendUint16(b, uint16(int16(8000*math.Sin(t.phase))))
		t.phase += t.step
	}
	return b
}

// silentFrames is MPEG-1 layer III at 128 kbit/s and 44.1 kHz with nothing in it.
func silentFrames(n int) []byte {
	frame := make([]byte, 417)
	copy(frame, "\xff\xfb\x90\xc4")
	return bytes.Repeat(frame, n)
}

// transcribe answers POST /v1/audio/transcriptions, and whisper.cpp's /inference in its own manner.
func (e *Engine) transcribe(x *exchange) {
	whisper := x.req.path == "/inference"
	f, err := readForm(x.req.get("Content-Type"), x.req.body)
	x.free()
	refuse := func(a *apiError) {
		if whisper {
			x.reply(a.status, "text/plain", []byte("Invalid request"))
			return
		}
		x.fail(*a)
	}
	switch {
	case err != nil:
		refuse(invalid("file", "There was an error parsing the body: %v", err))
		return
	case f.file == nil:
		refuse(invalid("file", "Field required: file"))
		return
	}
	model, ok := e.served(f.fields["model"])
	if !ok && !whisper {
		x.fail(apiError{status: 404, message: "The model `" + f.fields["model"] + "` does not exist.", param: "model"})
		return
	}
	format := f.fields["response_format"]
	switch format {
	case "":
		format = "json"
	case "json", "text", "srt", "vtt", "verbose_json":
	default:
		if !whisper {
			x.fail(*invalid("response_format", "Unsupported response_format: %s", format))
			return
		}
		format = "json"
	}
	if t := f.fields["temperature"]; t != "" {
		if _, err := strconv.ParseFloat(t, 64); err != nil {
			refuse(invalid("temperature", "Input should be a valid number: temperature"))
			return
		}
	}
	q := &chatRequest{model: model}
	q.prompt.reset(e.o.Seed)
	q.prompt.image(f.file)
	a := &answer{e: e, x: x, q: q, prompt: q.prompt.tokens(), limit: 1}
	defer a.release()
	if !a.enter() || !a.prefill() {
		return
	}
	seconds := f.seconds()
	lines := transcript(hash64(e.o.Seed, f.file), seconds)
	n := 0
	for _, l := range lines {
		n += len(strings.Fields(l.text))
	}
	if gap := a.gap(); gap > 0 && !x.pause(time.Duration(n)*gap) {
		return
	}
	a.say(n)
	ctype, body := render(lines, format, seconds, f.fields["language"], whisper, strings.Contains(f.words, "word") || whisper)
	a.release()
	x.reply(200, ctype, body)
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

// line is one segment of a transcript.
type line struct {
	start, end float64
	text       string
}

// transcript makes up what was said: about two words a second, a segment for each five seconds.
func transcript(seed uint64, seconds float64) []line {
	s := newSpeaker(seed)
	var lines []line
	for at := 0.0; at < seconds || len(lines) == 0; at += 5 {
		end := min(at+5, max(seconds, at+0.5))
		l := line{start: at, end: end}
		for range max(2, int(2*(end-at))) {
			l.text += s.next().text
		}
		l.text = strings.TrimSpace(strings.ReplaceAll(l.text, "\n\n", ""))
		lines = append(lines, l)
		if len(lines) == 200 {
			break
		}
	}
	return lines
}

func stamp(s float64, comma string) string {
	ms := int(math.Round(s * 1000))
	return fmt.Sprintf("%02d:%02d:%02d%s%03d", ms/3600000, ms/60000%60, ms/1000%60, comma, ms%1000)
}

// render writes a transcript in one of the five formats. whisper: with that server's blanks and Content-Types.
func render(lines []line, format string, seconds float64, language string, whisper, words bool) (string, []byte) {
	lead := ""
	if whisper {
		lead = " "
	}
	var all []string
	for _, l := range lines {
		all = append(all, lead+l.text)
	}
	whole := strings.Join(all, " ")
	if whisper {
		whole = strings.Join(all, "\n") + "\n"
	}
	var b []byte
	switch format {
	case "text":
		if whisper {
			return "text/html; charset=utf-8", []byte(whole + "\n")
		}
		return "text/plain; charset=utf-8", []byte(whole + "\n")
	case "srt":
		for i, l := range lines {
			b = fmt.Appendf(b, "%d\n%s --> %s\n%s%s\n\n", i+1, stamp(l.start, ","), stamp(l.end, ","), lead, l.text)
		}
		if whisper {
			return "application/x-subrip", b
		}
		return "text/plain; charset=utf-8", b
	case "vtt":
		b = append(b, "WEBVTT\n\n"...)
		for _, l := range lines {
			b = fmt.Appendf(b, "%s --> %s\n%s%s\n\n", stamp(l.start, "."), stamp(l.end, "."), lead, l.text)
		}
		return "text/vtt", b
	case "json":
		b = append(b, `{"text":`...)
		b = appendString(b, whole)
		if !whisper {
			b = fmt.Appendf(b, `,"usage":{"type":"duration","seconds":%d}`, int(math.Ceil(seconds)))
		}
		return "application/json", append(b, '}')
	}
	if language == "" || language == "auto" {
		language = "english"
	}
	b = append(b, `{"task":"transcribe","language":`...)
	b = appendString(b, language)
	b = fmt.Appendf(b, `,"duration":%.2f,"text":`, seconds)
	b = appendString(b, whole)
	b = append(b, `,"segments":[`...)
	for i, l := range lines {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `{"id":%d,"seek":0,"start":%.2f,"end":%.2f,"text":`, i, l.start, l.end)
		b = appendString(b, lead+l.text)
		b = append(b, `,"tokens":[1],"temperature":0.0,"avg_logprob":-0.2,"compression_ratio":1.2,"no_speech_prob":0.01}`...)
	}
	b = append(b, ']')
	if words {
		b = append(b, `,"words":[`...)
		first := true
		for _, l := range lines {
			ws := strings.Fields(l.text)
			each := (l.end - l.start) / float64(len(ws))
			for i, w := range ws {
				if !first {
					b = append(b, ',')
				}
				first = false
				b = append(b, `{"word":`...)
				b = appendString(b, w)
				b = fmt.Appendf(b, `,"start":%.2f,"end":%.2f}`, l.start+float64(i)*each, l.start+float64(i+1)*each)
			}
		}
		b = append(b, ']')
	}
	return "application/json", append(b, '}')
}
