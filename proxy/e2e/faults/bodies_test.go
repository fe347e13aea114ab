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

	"github.com/klauspost/compress/zstd"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// These tests cover rows 56 to 60: invalid bodies.

func TestFault56_BodyIsNotJSON(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{})
	good := e.ChatRequest("")
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
		"NaN": e.ChatRequest(`"temperature":NaN`), "Infinity": e.ChatRequest(`"temperature":Infinity`), "-Infinity": e.ChatRequest(`"top_p":-Infinity`), "hex": e.ChatRequest(`"seed":0x10`), "leading zero": e.ChatRequest(`"seed":01`), "plus": e.ChatRequest(`"seed":+1`), "dot": e.ChatRequest(`"temperature":.5`), "dot end": e.ChatRequest(`"temperature":1.`),
		"BOM": "\xef\xbb\xbf" + good, "UTF-16": utf16(good), "comment": "/* x */" + good, "line comment": good + "// x", "single quotes": strings.ReplaceAll(good, `"`, `'`), "no quotes": "{model:1}",
		"raw newline": e.ChatRequest("\"user\":\"a\nb\""), "raw NUL": e.ChatRequest("\"user\":\"a\x00b\""), "raw tab": e.ChatRequest("\"user\":\"a\tb\""), "bad escape": e.ChatRequest(`"user":"\x41"`), "bad u": e.ChatRequest(`"user":"\u12"`),
		"invalid UTF-8": e.ChatRequest("\"user\":\"\xff\xfe\""), "overlong UTF-8": e.ChatRequest("\"user\":\"\xc0\xaf\""), "surrogate in UTF-8": e.ChatRequest("\"user\":\"\xed\xa0\x80\""), "cut UTF-8": e.ChatRequest("\"user\":\"\xe2\x82\""), "half a surrogate pair": e.ChatRequest(`"user":"\ud83d"`), "the other half": e.ChatRequest(`"user":"\ude00 x"`), "halves in the wrong order": e.ChatRequest(`"user":"\ude00\ud83d"`),
		"array": "[]", "string": `"x"`, "number": "1", "null": "null", "true": "true", "form": "model=sim&messages=x", "XML": "<?xml version=\"1.0\"?><x/>", "lone brace": "{", "NUL after": good + "\x00",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := e.Post(rig.Chat.Path, body)
			r.T = t
			r.WantStatus(400)
			if !strings.Contains(r.Body, `"invalid_request_error"`) || strings.Contains(r.Body, rig.Canary) {
				t.Errorf("answer = %s, want invalid_request_error without the prompt", r.Body)
			}
		})
	}
	t.Run("no body", func(t *testing.T) {
		t.Parallel()
		c := e.Dial()
		_ = c.Send(e.RequestHead("POST", rig.Chat.Path, "Content-Type: application/json", "Content-Length: 0"))
		c.ReadReply("POST").WantRefused(rig.Chat, rig.Refusal{Status: 400, Kind: "invalid_request_error", Code: "invalid_json", After: ""})
	})
	t.Cleanup(func() { e.WantServedAtMost(t, 0) })
}

func TestFault57_JSONBombs(t *testing.T) {
	e := start(t, rig.Setup{})
	var manyKeys, messages strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&manyKeys, `,"k%d":%d`, i, i)
	}
	for range 1_000_000 {
		messages.WriteString(`{"role":"user","content":"x"},`)
	}
	for name, body := range map[string]string{
		"10⁶ digits":       e.ChatRequest(`"seed":` + strings.Repeat("9", 1_000_000)),
		"10⁶ decimals":     e.ChatRequest(`"temperature":0.` + strings.Repeat("1", 1_000_000)),
		"1e999999":         e.ChatRequest(`"temperature":1e999999`),
		"-1e999999":        e.ChatRequest(`"presence_penalty":-1e999999`),
		"seed 1e999999999": e.ChatRequest(`"seed":1e999999999`),
		"max_tokens big":   e.ChatRequest(`"max_tokens":99999999999999999999999`),
		"depth of arrays":  e.ChatRequest(`"x":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)),
		"depth of objects": e.ChatRequest(`"x":` + strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000)),
		"depth open":       `{"x":` + strings.Repeat("[", 1_000_000),
		"10⁵ keys":         e.ChatRequest(`"metadata":{"a":1` + manyKeys.String() + `}`),
		"10⁵ keys on top":  e.ChatRequest(manyKeys.String()[1:]),
		"10⁶ messages":     `{"model":"sim","messages":[` + messages.String() + `{"role":"user","content":"x"}]}`,
		"blanks":           strings.Repeat(" ", 8<<20) + e.ChatRequest(""),
		"blanks inside":    `{` + strings.Repeat("\n", 8<<20) + e.ChatRequest("")[1:],
		"escapes":          e.ChatRequest(`"user":"` + strings.Repeat(`\u0041`, 1<<20) + `"`),
		"quotes":           e.ChatRequest(`"user":"` + strings.Repeat(`\"`, 2<<20) + `"`),
	} {
		t.Run(name, func(t *testing.T) {
			r := e.Post(rig.Chat.Path, body)
			r.T = t
			switch r.Status {
			case 200:
			case 400:
				rig.WantNoLeak(t, "the answer", r.Body, e.Key)
			case 413:
			default:
				t.Errorf("status %d: %.200s", r.Status, r.Body)
			}
			r.WantWithin(time.Second)
			if len(r.Body) > 1<<20 {
				t.Error("the answer is as long as the question")
			}
		})
	}
}

func TestFault58_BadModel(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{})
	e.Post(rig.Chat.Path, e.ChatRequest(`"model":1`))
	before := len(e.Metrics())
	for model, want := range map[string]int{
		``: 400, `"model":null,`: 400, `"model":1,`: 400, `"model":["sim"],`: 400, `"model":{"id":"sim"},`: 400, `"model":true,`: 400, `"model":"",`: 400,
		`"model":"` + rig.Canary + `",`: 404, `"model":"sim ",`: 404, `"model":" sim",`: 404, `"model":"SIM",`: 404, `"model":"sim\r\nX-Injected: 1",`: 404,
		`"model":"sim\u0000",`: 404, `"model":"../sim",`: 404, `"model":"` + strings.Repeat("m", 1<<20) + `",`: 404, `"model":"*",`: 404, `"model":"-",`: 404, `"model":"ſim",`: 404, `"model":"sim\u202e",`: 404,
	} {
		for _, w := range rig.UnstreamedRequestTypes {
			t.Run(fmt.Sprintf("%s %.40q", w, model), func(t *testing.T) {
				r := e.Post(w.Path, "{"+model+strings.TrimPrefix(w.RequestBody("sim", rig.Prompt, ""), `{"model":"sim",`))
				r.T = t
				if r.Status != want && !(r.Status == 400 && want == 404) {
					t.Errorf("status %d, want %d: %.200s", r.Status, want, r.Body)
				}
				if !strings.Contains(r.Body, `"param":"model"`) {
					t.Errorf("param is not model: %.300s", r.Body)
				}
				if r.Header.Get("X-Injected") != "" {
					t.Error("a header was injected")
				}
				// The response contains no text from the request except the model's name.
				rig.WantNoLeak(t, "the answer", strings.Replace(r.Body, `The model \"`+rig.Canary+`\" does not exist`, "", 1), e.Key)
			})
		}
	}
	for _, l := range e.AccessLinesWhenIdle() {
		if l.Model != "-" {
			t.Errorf("the log has the model %q", l.Model)
		}
	}
	for name := range e.Metrics() {
		if strings.Contains(name, "mmm") || strings.Contains(name, rig.Canary) || strings.Contains(name, "SIM") {
			t.Errorf("a client's word is a label: %s", name)
		}
	}
	// these refusals may add metric series for their dialects and codes
	if after := len(e.Metrics()); after > before+20 {
		t.Errorf("%d series became %d", before, after)
	}
	e.WantServedAtMost(t, 0)
}

func TestFault59_BodyTooLarge(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{Limits: "request_body: 1MiB"})
	const over = 200 << 20
	t.Run("declared", func(t *testing.T) {
		t.Parallel()
		c := e.Dial()
		_ = c.Send(e.RequestHead("POST", rig.Chat.Path, "Content-Type: application/json", "Content-Length: "+strconv.Itoa(over)))
		r := c.ReadReply("POST")
		r.T = t
		r.WantRefused(rig.Chat, rig.RefusalBodyTooLarge)
		if _, closed := c.WaitClosed(rig.WaitTimeout); !closed {
			t.Error("the connection stays open")
		}
	})
	t.Run("declared and sent", func(t *testing.T) {
		t.Parallel()
		// Like some clients, the test sends the whole request before it reads.
		c := e.Dial()
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		_ = c.Send(e.RequestHead("POST", rig.Chat.Path, "Content-Type: application/json", "Content-Length: "+strconv.Itoa(over)))
		sent := make(chan int64)
		go func() {
			n, _ := io.Copy(c.Conn, io.LimitReader(zeros{}, over))
			sent <- n
		}()
		r := c.ReadReply("POST")
		r.T = t
		r.WantRefused(rig.Chat, rig.RefusalBodyTooLarge)
		c.Close()
		if n := <-sent; n > 64<<20 {
			t.Errorf("%d bytes were taken from the client", n)
		}
	})
	t.Run("by the library", func(t *testing.T) {
		t.Parallel()
		for range 5 {
			r := e.Post(rig.Chat.Path, e.ChatRequest(`"user":"`+strings.Repeat("x", 8<<20)+`"`))
			r.T = t
			r.WantRefused(rig.Chat, rig.RefusalBodyTooLarge)
		}
	})
	t.Run("just over, just under", func(t *testing.T) {
		t.Parallel()
		room := 1<<20 - len(e.ChatRequest(`"user":""`))
		e.Post(rig.Chat.Path, e.ChatRequest(`"user":"`+strings.Repeat("x", room)+`"`)).WantStatus(200)
		e.Post(rig.Chat.Path, e.ChatRequest(`"user":"`+strings.Repeat("x", room+1)+`"`)).WantStatus(413)
	})
	t.Run("chunked", func(t *testing.T) {
		t.Parallel()
		c := e.Dial()
		_ = c.Send(e.RequestHead("POST", rig.Chat.Path, "Content-Type: application/json", "Transfer-Encoding: chunked"))
		sent := make(chan int)
		go func() {
			n, chunk := 0, "10000\r\n"+strings.Repeat("x", 1<<16)+"\r\n"
			for n < over && c.Send(chunk) == nil {
				n += len(chunk)
			}
			sent <- n
		}()
		r := c.ReadReply("POST")
		r.T = t
		r.WantRefused(rig.Chat, rig.RefusalBodyTooLarge)
		c.Close()
		if n := <-sent; n > 64<<20 {
			t.Errorf("%d bytes were taken from the client", n)
		}
	})
	t.Run("without a key", func(t *testing.T) {
		t.Parallel()
		c := e.Dial()
		_ = c.Send("POST " + rig.Chat.Path + " HTTP/1.1\r\nHost: edge\r\nContent-Length: " + strconv.Itoa(over) + "\r\n\r\n")
		c.ReadReply("POST").WantStatus(401)
	})
	t.Cleanup(func() {
		e.WantServedAtMost(t, 1)
		e.WantPeakMemory(150 << 20)
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestFault60_ContentEncoding checks that a JSON body may be compressed with gzip or zstd, and that
// engines receive it decoded. Other codings and damaged, truncated or oversized bodies must be
// refused.
func TestFault60_ContentEncoding(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{Engines: []sim.Options{{Record: true}}, Limits: "request_body: 4MiB"})
	pack := map[string]func(string) string{
		"gzip": func(text string) string {
			var z bytes.Buffer
			w := gzip.NewWriter(&z)
			_, _ = io.WriteString(w, text)
			_ = w.Close()
			return z.String()
		},
		"zstd": func(text string) string {
			w, err := zstd.NewWriter(nil)
			if err != nil {
				t.Fatal(err)
			}
			return string(w.EncodeAll([]byte(text), nil))
		},
	}
	var served int64
	for coding, pack := range pack {
		for _, name := range []string{coding, strings.ToUpper(coding)} {
			for _, d := range rig.TextRequestTypes {
				body := d.RequestBody("sim", rig.Prompt, "")
				e.Post(d.Path, pack(body), "Content-Encoding: "+name).WantStatus(200)
				if served++; d == rig.Chat {
					sent := e.Engines[0].Recorded()
					if got := string(sent[len(sent)-1].Body); got != body || sent[len(sent)-1].Get("Content-Encoding") != "" {
						t.Errorf("%s: the engine was sent %s", name, got)
					}
				}
			}
		}
		whole := pack(e.ChatRequest(""))
		large := pack(e.ChatRequest(`"pad":"` + strings.Repeat(" ", 5<<20) + `"`))
		bomb := pack(e.ChatRequest(`"pad":"` + strings.Repeat(" ", 3<<20) + `"`))
		for what, c := range map[string]struct {
			body   string
			status int
			code   string
		}{
			"cut short": {whole[:len(whole)-5], 400, "bad_request"}, "no coding": {e.ChatRequest(""), 400, "bad_request"},
			"something behind": {whole + "x", 400, "bad_request"}, "damaged": {whole[:20] + "xxxx" + whole[24:], 400, "bad_request"},
			"too large": {large, 413, "request_too_large"}, "a bomb": {bomb, 413, "request_too_large"},
		} {
			if r := e.Post(rig.Chat.Path, c.body, "Content-Encoding: "+coding); r.Status != c.status || !strings.Contains(r.Body, c.code) {
				t.Errorf("%s, %s: answer = %d %s, want %d %s", coding, what, r.Status, r.Body, c.status, c.code)
			}
		}
	}
	for _, enc := range []string{"deflate", "br", "gzip, identity", "identity, gzip", "gzip,zstd", "x-gzip", "compress", "nonsense"} {
		e.Post(rig.Chat.Path, pack["gzip"](e.ChatRequest("")), "Content-Encoding: "+enc).
			WantRefused(rig.Chat, rig.Refusal{Status: 415, Kind: "invalid_request_error", Code: "unsupported_media_type", After: ""})
	}
	two := e.RequestHead("POST", rig.Chat.Path, "Content-Type: application/json", "Content-Encoding: gzip", "Content-Encoding: identity", "Content-Length: 2") + "{}"
	if r, err := sendForStatus(e.Dial(), two); err != nil || r != 415 {
		t.Errorf("two lines: %d, %v", r, err)
	}
	e.Post(rig.Chat.Path, e.ChatRequest(""), "Content-Encoding: identity").WantStatus(200)
	e.WantServedAtMost(t, served+1)
}
