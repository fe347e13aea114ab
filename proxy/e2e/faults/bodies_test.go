package faults

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Rows 56 to 60: bodies that are no good.

func TestFault56_BodyIsNotJSON(t *testing.T) {
	t.Parallel()
	e := start(t, setup{})
	good := e.chat("")
	utf16 := func(s string) string {
		var b strings.Builder
		b.WriteString("\xff\xfe")
		for _, r := range s {
			b.WriteString(string([]byte{byte(r), byte(r >> 8)}))
		}
		return b.String()
	}
	for name, body := range map[string]string{
		"empty": " ", "blank": "\n\t ", "cut": good[:len(good)-1], "cut in string": good[:30], "trailing": good + "x", "two": good + good, "trailing comma": `{"model":"sim",}`,
		"NaN": e.chat(`"temperature":NaN`), "Infinity": e.chat(`"temperature":Infinity`), "-Infinity": e.chat(`"top_p":-Infinity`), "hex": e.chat(`"seed":0x10`), "leading zero": e.chat(`"seed":01`), "plus": e.chat(`"seed":+1`), "dot": e.chat(`"temperature":.5`), "dot end": e.chat(`"temperature":1.`),
		"BOM": "\xef\xbb\xbf" + good, "UTF-16": utf16(good), "comment": "/* x */" + good, "line comment": good + "// x", "single quotes": strings.ReplaceAll(good, `"`, `'`), "no quotes": "{model:1}",
		"raw newline": e.chat("\"user\":\"a\nb\""), "raw NUL": e.chat("\"user\":\"a\x00b\""), "raw tab": e.chat("\"user\":\"a\tb\""), "bad escape": e.chat(`"user":"\x41"`), "bad u": e.chat(`"user":"\u12"`),
		"invalid UTF-8": e.chat("\"user\":\"\xff\xfe\""), "overlong UTF-8": e.chat("\"user\":\"\xc0\xaf\""), "surrogate in UTF-8": e.chat("\"user\":\"\xed\xa0\x80\""), "cut UTF-8": e.chat("\"user\":\"\xe2\x82\""), "half a surrogate pair": e.chat(`"user":"\ud83d"`), "the other half": e.chat(`"user":"\ude00 x"`), "halves in the wrong order": e.chat(`"user":"\ude00\ud83d"`),
		"array": "[]", "string": `"x"`, "number": "1", "null": "null", "true": "true", "form": "model=sim&messages=x", "XML": "<?xml version=\"1.0\"?><x/>", "lone brace": "{", "NUL after": good + "\x00",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := e.post(chat.path, body)
			r.t = t
			r.wantStatus(400)
			if !strings.Contains(r.body, `"invalid_request_error"`) || strings.Contains(r.body, canary) {
				t.Errorf("%s", r.body)
			}
		})
	}
	t.Run("no body", func(t *testing.T) {
		t.Parallel()
		c := e.dial()
		_ = c.send(e.head("POST", chat.path, "Content-Type: application/json", "Content-Length: 0"))
		c.reply("POST").wantRefused(chat, refusal{400, "invalid_request_error", "invalid_json", ""})
	})
	t.Cleanup(func() { e.wantUnserved(t, 0) })
}

func TestFault57_JSONBombs(t *testing.T) {
	e := start(t, setup{})
	var manyKeys, messages strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&manyKeys, `,"k%d":%d`, i, i)
	}
	for range 1_000_000 {
		messages.WriteString(`{"role":"user","content":"x"},`)
	}
	for name, body := range map[string]string{
		"10⁶ digits":       e.chat(`"seed":` + strings.Repeat("9", 1_000_000)),
		"10⁶ decimals":     e.chat(`"temperature":0.` + strings.Repeat("1", 1_000_000)),
		"1e999999":         e.chat(`"temperature":1e999999`),
		"-1e999999":        e.chat(`"presence_penalty":-1e999999`),
		"seed 1e999999999": e.chat(`"seed":1e999999999`),
		"max_tokens big":   e.chat(`"max_tokens":99999999999999999999999`),
		"depth of arrays":  e.chat(`"x":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)),
		"depth of objects": e.chat(`"x":` + strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000)),
		"depth open":       `{"x":` + strings.Repeat("[", 1_000_000),
		"10⁵ keys":         e.chat(`"metadata":{"a":1` + manyKeys.String() + `}`),
		"10⁵ keys on top":  e.chat(manyKeys.String()[1:]),
		"10⁶ messages":     `{"model":"sim","messages":[` + messages.String() + `{"role":"user","content":"x"}]}`,
		"blanks":           strings.Repeat(" ", 8<<20) + e.chat(""),
		"blanks inside":    `{` + strings.Repeat("\n", 8<<20) + e.chat("")[1:],
		"escapes":          e.chat(`"user":"` + strings.Repeat(`\u0041`, 1<<20) + `"`),
		"quotes":           e.chat(`"user":"` + strings.Repeat(`\"`, 2<<20) + `"`),
	} {
		t.Run(name, func(t *testing.T) {
			r := e.post(chat.path, body)
			r.t = t
			switch r.status {
			case 200:
			case 400:
				wantSecret(t, "the answer", r.body, e.key)
			case 413:
			default:
				t.Errorf("status %d: %.200s", r.status, r.body)
			}
			if limit := 5 * time.Second; r.took > limit { // one, and what a busy machine adds
				t.Errorf("took %v", r.took)
			}
			if len(r.body) > 1<<20 {
				t.Error("the answer is as long as the question")
			}
		})
	}
}

func TestFault58_BadModel(t *testing.T) {
	t.Parallel()
	e := start(t, setup{})
	e.post(chat.path, e.chat(`"model":1`))
	before := len(e.metrics())
	for model, want := range map[string]int{
		``: 400, `"model":null,`: 400, `"model":1,`: 400, `"model":["sim"],`: 400, `"model":{"id":"sim"},`: 400, `"model":true,`: 400, `"model":"",`: 400,
		`"model":"` + canary + `",`: 404, `"model":"sim ",`: 404, `"model":" sim",`: 404, `"model":"SIM",`: 404, `"model":"sim\r\nX-Injected: 1",`: 404,
		`"model":"sim\u0000",`: 404, `"model":"../sim",`: 404, `"model":"` + strings.Repeat("m", 1<<20) + `",`: 404, `"model":"*",`: 404, `"model":"-",`: 404, `"model":"ſim",`: 404, `"model":"sim\u202e",`: 404,
	} {
		for _, w := range plainWays {
			t.Run(fmt.Sprintf("%s %.40q", w, model), func(t *testing.T) {
				r := e.post(w.path, "{"+model+strings.TrimPrefix(w.body("sim", prompt, ""), `{"model":"sim",`))
				r.t = t
				if r.status != want && !(r.status == 400 && want == 404) {
					t.Errorf("status %d, want %d: %.200s", r.status, want, r.body)
				}
				if !strings.Contains(r.body, `"param":"model"`) {
					t.Errorf("param is not model: %.300s", r.body)
				}
				if r.header.Get("X-Injected") != "" {
					t.Error("a header was injected")
				}
				wantSecret(t, "the answer", r.body, e.key)
			})
		}
	}
	for _, l := range e.calls() {
		if l.Model != "-" {
			t.Errorf("the log has the model %q", l.Model)
		}
	}
	for name := range e.metrics() {
		if strings.Contains(name, "mmm") || strings.Contains(name, canary) || strings.Contains(name, "SIM") {
			t.Errorf("a client's word is a label: %s", name)
		}
	}
	if after := len(e.metrics()); after > before+20 { // the dialects and codes of these refusals
		t.Errorf("%d series became %d", before, after)
	}
	e.wantUnserved(t, 0)
}

func TestFault59_BodyTooLarge(t *testing.T) {
	t.Parallel()
	e := start(t, setup{limits: "request_body: 1MiB"})
	const over = 200 << 20
	t.Run("declared", func(t *testing.T) {
		t.Parallel()
		c := e.dial()
		_ = c.send(e.head("POST", chat.path, "Content-Type: application/json", "Content-Length: "+strconv.Itoa(over)))
		r := c.reply("POST")
		r.t = t
		r.wantRefused(chat, refusal{413, "request_too_large", "request_too_large", ""})
		if _, closed := c.closed(patience); !closed {
			t.Error("the connection stays open")
		}
	})
	t.Run("declared and sent", func(t *testing.T) {
		t.Parallel()
		// The client sends all of it before it reads, as some do.
		c := e.dial()
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		_ = c.send(e.head("POST", chat.path, "Content-Type: application/json", "Content-Length: "+strconv.Itoa(over)))
		sent := make(chan int64)
		go func() {
			n, _ := io.Copy(c.Conn, io.LimitReader(zeros{}, over))
			sent <- n
		}()
		r := c.reply("POST")
		r.t = t
		r.wantRefused(chat, refusal{413, "request_too_large", "request_too_large", ""})
		c.Close()
		if n := <-sent; n > 64<<20 {
			t.Errorf("%d bytes were taken from the client", n)
		}
	})
	t.Run("by the library", func(t *testing.T) {
		t.Parallel()
		for range 5 {
			r := e.post(chat.path, e.chat(`"user":"`+strings.Repeat("x", 8<<20)+`"`))
			r.t = t
			r.wantRefused(chat, refusal{413, "request_too_large", "request_too_large", ""})
		}
	})
	t.Run("just over, just under", func(t *testing.T) {
		t.Parallel()
		room := 1<<20 - len(e.chat(`"user":""`))
		e.post(chat.path, e.chat(`"user":"`+strings.Repeat("x", room)+`"`)).wantStatus(200)
		e.post(chat.path, e.chat(`"user":"`+strings.Repeat("x", room+1)+`"`)).wantStatus(413)
	})
	t.Run("chunked", func(t *testing.T) {
		t.Parallel()
		c := e.dial()
		_ = c.send(e.head("POST", chat.path, "Content-Type: application/json", "Transfer-Encoding: chunked"))
		sent := make(chan int)
		go func() {
			n, chunk := 0, "10000\r\n"+strings.Repeat("x", 1<<16)+"\r\n"
			for n < over && c.send(chunk) == nil {
				n += len(chunk)
			}
			sent <- n
		}()
		r := c.reply("POST")
		r.t = t
		r.wantRefused(chat, refusal{413, "request_too_large", "request_too_large", ""})
		c.Close()
		if n := <-sent; n > 64<<20 {
			t.Errorf("%d bytes were taken from the client", n)
		}
	})
	t.Run("without a key", func(t *testing.T) {
		t.Parallel()
		c := e.dial()
		_ = c.send("POST " + chat.path + " HTTP/1.1\r\nHost: edge\r\nContent-Length: " + strconv.Itoa(over) + "\r\n\r\n")
		c.reply("POST").wantStatus(401)
	})
	t.Cleanup(func() {
		e.wantUnserved(t, 1)
		e.wantPeak(t, 150<<20)
	})
}

// zeros is an endless body.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestFault60_ContentEncoding(t *testing.T) {
	t.Parallel()
	e := start(t, setup{})
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, _ = io.WriteString(w, e.chat(""))
	_ = w.Close()
	for _, enc := range []string{"gzip", "GZIP", "deflate", "br", "zstd", "gzip, identity", "identity, gzip", "x-gzip", "compress", "nonsense"} {
		t.Run(enc, func(t *testing.T) {
			t.Parallel()
			r := e.post(chat.path, z.String(), "Content-Encoding: "+enc)
			r.t = t
			r.wantRefused(chat, refusal{415, "invalid_request_error", "unsupported_media_type", ""})
		})
	}
	t.Run("identity", func(t *testing.T) {
		t.Parallel()
		e.post(chat.path, e.chat(""), "Content-Encoding: identity").wantStatus(200)
	})
	t.Cleanup(func() { e.wantUnserved(t, 1) })
}
