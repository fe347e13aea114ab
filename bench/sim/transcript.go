package sim

import (
	"fmt"
	"math"
	"strings"

	"penstock/bench/sim/textgen"
	"penstock/bench/sim/wire"
)

// line is one segment of a transcript.
type line struct {
	start, end float64
	text       string
}

// transcribed makes up what was said: about two words a second, a segment for each five seconds.
func transcribed(seed uint64, seconds float64) []line {
	s := textgen.New(seed)
	var lines []line
	for at := 0.0; at < seconds || len(lines) == 0; at += 5 {
		end := min(at+5, max(seconds, at+0.5))
		l := line{start: at, end: end}
		for range max(2, int(2*(end-at))) {
			l.text += s.Next().Text
		}
		l.text = strings.TrimSpace(strings.ReplaceAll(l.text, "\n\n", ""))
		lines = append(lines, l)
		if len(lines) == 200 {
			break
		}
	}
	return lines
}

// transcript is what is said of a sound file.
type transcript struct {
	lines    []line
	seconds  float64
	language string
	words    bool // words have times, in verbose_json
	whisper  bool // as whisper.cpp's server: with its blanks, its Content-Types, and words always
}

// count is how many words were said.
func (t *transcript) count() int {
	n := 0
	for _, l := range t.lines {
		n += len(strings.Fields(l.text))
	}
	return n
}

// text is all of it.
func (t *transcript) text() string {
	all := make([]string, len(t.lines))
	for i, l := range t.lines {
		all[i] = t.lead() + l.text
	}
	if t.whisper {
		return strings.Join(all, "\n") + "\n"
	}
	return strings.Join(all, " ")
}

// lead is what stands before a line.
func (t *transcript) lead() string {
	if t.whisper {
		return " "
	}
	return ""
}

func stamp(s float64, comma string) string {
	ms := int(math.Round(s * 1000))
	return fmt.Sprintf("%02d:%02d:%02d%s%03d", ms/3600000, ms/60000%60, ms/1000%60, comma, ms%1000)
}

// render writes it in one of the five formats and returns the Content-Type with it.
func (t *transcript) render(format string) (ctype string, body []byte) {
	var b []byte
	switch format {
	case "text":
		if t.whisper {
			return "text/html; charset=utf-8", []byte(t.text() + "\n")
		}
		return "text/plain; charset=utf-8", []byte(t.text() + "\n")
	case "srt":
		for i, l := range t.lines {
			b = fmt.Appendf(b, "%d\n%s --> %s\n%s%s\n\n", i+1, stamp(l.start, ","), stamp(l.end, ","), t.lead(), l.text)
		}
		if t.whisper {
			return "application/x-subrip", b
		}
		return "text/plain; charset=utf-8", b
	case "vtt":
		b = append(b, "WEBVTT\n\n"...)
		for _, l := range t.lines {
			b = fmt.Appendf(b, "%s --> %s\n%s%s\n\n", stamp(l.start, "."), stamp(l.end, "."), t.lead(), l.text)
		}
		return "text/vtt", b
	case "json":
		o := wire.Members{'{'}
		o.Text("text", t.text())
		if !t.whisper {
			o.Raw("usage", fmt.Sprintf(`{"type":"duration","seconds":%d}`, int(math.Ceil(t.seconds))))
		}
		return "application/json", append(o, '}')
	}
	return "application/json", t.verbose()
}

// verbose is verbose_json.
func (t *transcript) verbose() []byte {
	language := t.language
	if language == "" || language == "auto" {
		language = "english"
	}
	o := wire.Members{'{'}
	o.Text("task", "transcribe")
	o.Text("language", language)
	o.Raw("duration", fmt.Sprintf("%.2f", t.seconds))
	o.Text("text", t.text())
	o.Raw("segments", "[")
	for i, l := range t.lines {
		if i > 0 {
			o = append(o, ',')
		}
		o = append(o, '{')
		o.Number("id", i)
		if !t.whisper {
			o.Number("seek", 0)
		}
		o.Text("text", t.lead()+l.text)
		o.Raw("start", fmt.Sprintf("%.2f", l.start))
		o.Raw("end", fmt.Sprintf("%.2f", l.end))
		o.Raw("tokens", "[1]")
		if t.whisper {
			o.Raw("words", "[")
			o = append(t.appendWords(o, l), ']')
		}
		o.Raw("temperature", "0.0")
		o.Raw("avg_logprob", "-0.2")
		if !t.whisper {
			o.Raw("compression_ratio", "1.2")
		}
		o.Raw("no_speech_prob", "0.01")
		o = append(o, '}')
	}
	o = append(o, ']')
	switch {
	case t.whisper:
		o.Text("detected_language", "english")
		o.Raw("detected_language_probability", "0.9")
		o.Raw("language_probabilities", `{"en":0.9}`)
	case t.words:
		o.Raw("words", "[")
		for i, l := range t.lines {
			if i > 0 {
				o = append(o, ',')
			}
			o = t.appendWords(o, l)
		}
		o = append(o, ']')
	}
	return append(o, '}')
}

// appendWords writes the words of a line with their times.
func (t *transcript) appendWords(o wire.Members, l line) wire.Members {
	ws := strings.Fields(l.text)
	each := (l.end - l.start) / float64(len(ws))
	for i, w := range ws {
		if i > 0 {
			o = append(o, ',')
		}
		o = append(o, '{')
		o.Text("word", t.lead()+w)
		o.Raw("start", fmt.Sprintf("%.2f", l.start+float64(i)*each))
		o.Raw("end", fmt.Sprintf("%.2f", l.start+float64(i+1)*each))
		if t.whisper {
			o.Number("t_dtw", -1)
			o.Raw("probability", "0.99")
		}
		o = append(o, '}')
	}
	return o
}
