package audio

import (
	"fmt"
	"math"
	"strings"

	"penstock/bench/sim/textgen"
	"penstock/bench/sim/wire"
)

// Line is one segment of a transcript.
type Line struct {
	Start, End float64
	Text       string
}

// InventLines makes up what was said: about two words a second, a segment for each five seconds.
func InventLines(seed uint64, seconds float64) []Line {
	s := textgen.New(seed)
	var lines []Line
	for at := 0.0; at < seconds || len(lines) == 0; at += 5 {
		end := min(at+5, max(seconds, at+0.5))
		l := Line{Start: at, End: end}
		for range max(2, int(2*(end-at))) {
			l.Text += s.Next().Text
		}
		l.Text = strings.TrimSpace(strings.ReplaceAll(l.Text, "\n\n", ""))
		lines = append(lines, l)
		if len(lines) == 200 {
			break
		}
	}
	return lines
}

// Transcript is what is said of a sound file.
type Transcript struct {
	Lines    []Line
	Seconds  float64
	Language string
	Words    bool // words have times, in verbose_json
	Whisper  bool // as whisper.cpp's server: with its blanks, its Content-Types, and words always
}

// Count is how many words were said.
func (t *Transcript) Count() int {
	n := 0
	for _, l := range t.Lines {
		n += len(strings.Fields(l.Text))
	}
	return n
}

// text is all of it.
func (t *Transcript) text() string {
	all := make([]string, len(t.Lines))
	for i, l := range t.Lines {
		all[i] = t.lead() + l.Text
	}
	if t.Whisper {
		return strings.Join(all, "\n") + "\n"
	}
	return strings.Join(all, " ")
}

// lead is what stands before a line.
func (t *Transcript) lead() string {
	if t.Whisper {
		return " "
	}
	return ""
}

func stamp(s float64, comma string) string {
	ms := int(math.Round(s * 1000))
	return fmt.Sprintf("%02d:%02d:%02d%s%03d", ms/3600000, ms/60000%60, ms/1000%60, comma, ms%1000)
}

// Render writes it in one of the five formats and returns the Content-Type with it.
func (t *Transcript) Render(format string) (ctype string, body []byte) {
	var b []byte
	switch format {
	case "text":
		if t.Whisper {
			return "text/html; charset=utf-8", []byte(t.text() + "\n")
		}
		return "text/plain; charset=utf-8", []byte(t.text() + "\n")
	case "srt":
		for i, l := range t.Lines {
			b = fmt.Appendf(b, "%d\n%s --> %s\n%s%s\n\n", i+1, stamp(l.Start, ","), stamp(l.End, ","), t.lead(), l.Text)
		}
		if t.Whisper {
			return "application/x-subrip", b
		}
		return "text/plain; charset=utf-8", b
	case "vtt":
		b = append(b, "WEBVTT\n\n"...)
		for _, l := range t.Lines {
			b = fmt.Appendf(b, "%s --> %s\n%s%s\n\n", stamp(l.Start, "."), stamp(l.End, "."), t.lead(), l.Text)
		}
		return "text/vtt", b
	case "json":
		o := wire.Members{'{'}
		o.Text("text", t.text())
		if !t.Whisper {
			o.Raw("usage", fmt.Sprintf(`{"type":"duration","seconds":%d}`, int(math.Ceil(t.Seconds))))
		}
		return "application/json", append(o, '}')
	}
	return "application/json", t.verbose()
}

// verbose is verbose_json.
func (t *Transcript) verbose() []byte {
	language := t.Language
	if language == "" || language == "auto" {
		language = "english"
	}
	o := wire.Members{'{'}
	o.Text("task", "transcribe")
	o.Text("language", language)
	o.Raw("duration", fmt.Sprintf("%.2f", t.Seconds))
	o.Text("text", t.text())
	o.Raw("segments", "[")
	for i, l := range t.Lines {
		if i > 0 {
			o = append(o, ',')
		}
		o = append(o, '{')
		o.Number("id", i)
		if !t.Whisper {
			o.Number("seek", 0)
		}
		o.Text("text", t.lead()+l.Text)
		o.Raw("start", fmt.Sprintf("%.2f", l.Start))
		o.Raw("end", fmt.Sprintf("%.2f", l.End))
		o.Raw("tokens", "[1]")
		if t.Whisper {
			o.Raw("words", "[")
			o = append(t.appendWords(o, l), ']')
		}
		o.Raw("temperature", "0.0")
		o.Raw("avg_logprob", "-0.2")
		if !t.Whisper {
			o.Raw("compression_ratio", "1.2")
		}
		o.Raw("no_speech_prob", "0.01")
		o = append(o, '}')
	}
	o = append(o, ']')
	switch {
	case t.Whisper:
		o.Text("detected_language", "english")
		o.Raw("detected_language_probability", "0.9")
		o.Raw("language_probabilities", `{"en":0.9}`)
	case t.Words:
		o.Raw("words", "[")
		for i, l := range t.Lines {
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
func (t *Transcript) appendWords(o wire.Members, l Line) wire.Members {
	ws := strings.Fields(l.Text)
	each := (l.End - l.Start) / float64(len(ws))
	for i, w := range ws {
		if i > 0 {
			o = append(o, ',')
		}
		o = append(o, '{')
		o.Text("word", t.lead()+w)
		o.Raw("start", fmt.Sprintf("%.2f", l.Start+float64(i)*each))
		o.Raw("end", fmt.Sprintf("%.2f", l.Start+float64(i+1)*each))
		if t.Whisper {
			o.Number("t_dtw", -1)
			o.Raw("probability", "0.99")
		}
		o = append(o, '}')
	}
	return o
}
