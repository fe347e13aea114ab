package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"penstock/proxy/auth"
)

// Rows 52 to 60 and 64 of the fault matrix: credentials and bodies that are refused before an engine sees them.

// unauthorized sends header lines in place of the key and wants a 401 with the code.
func (p *penstock) unauthorized(t *testing.T, target, code string, lines ...string) {
	t.Helper()
	body := p.chat("")
	c := p.dial()
	_ = c.send("POST " + target + " HTTP/1.1\r\nHost: edge\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n" +
		strings.Join(append(lines, ""), "\r\n") + "\r\n" + body)
	r := c.reply("POST")
	r.t = t
	r.wantError(401, "authentication_error", code)
	if got := r.header.Get("Www-Authenticate"); got != "Bearer" {
		t.Errorf("WWW-Authenticate %q", got)
	}
}

func TestFault52_BadCredentials(t *testing.T) {
	t.Parallel()
	expired, expiredHash, _ := auth.NewKey()
	inactive, inactiveHash, _ := auth.NewKey()
	p := start(t, setup{keys: `
- { id: expired, hash: "` + expiredHash + `", expires: 2020-01-01T00:00:00Z }
- { id: inactive, hash: "` + inactiveHash + `", active: false }
`})
	stranger, _, _ := auth.NewKey()
	near := p.key[:len(p.key)-1] + string(p.key[len(p.key)-1]^1)
	texts := map[string]bool{}
	for name, lines := range map[string][]string{
		"none":                {},
		"empty":               {"Authorization: "},
		"scheme alone":        {"Authorization: Bearer"},
		"scheme and blank":    {"Authorization: Bearer "},
		"wrong":               {"Authorization: Bearer wrong"},
		"stranger":            {"Authorization: Bearer " + stranger},
		"near":                {"Authorization: Bearer " + near},
		"longer":              {"Authorization: Bearer " + p.key + "x"},
		"shorter":             {"Authorization: Bearer " + p.key[:len(p.key)-1]},
		"upper case":          {"Authorization: Bearer " + strings.ToUpper(p.key)},
		"expired":             {"Authorization: Bearer " + expired},
		"inactive":            {"Authorization: Bearer " + inactive},
		"basic":               {"Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("key:"+p.key))},
		"digest":              {"Authorization: Digest username=\"" + p.key + "\""},
		"no scheme":           {"Authorization: " + p.key},
		"token":               {"Authorization: Token " + p.key},
		"quoted":              {`Authorization: Bearer "` + p.key + `"`},
		"two blanks inside":   {"Authorization: Bearer " + p.key[:10] + " " + p.key[10:]},
		"cookie":              {"Cookie: api_key=" + p.key},
		"Proxy-Authorization": {"Proxy-Authorization: Bearer " + p.key},
		"x_api_key":           {"x_api_key: " + p.key},
		"api-key":             {"api-key: " + p.key},
		"wrong x-api-key":     {"x-api-key: wrong"},
		"hash":                {"Authorization: Bearer " + auth.Hash(p.key)},
		"huge":                {"Authorization: Bearer " + strings.Repeat("k", 5000)},
		"8-bit":               {"Authorization: Bearer \xff\xfe\xfd"},
	} {
		t.Run(name, func(t *testing.T) {
			p.unauthorized(t, chatPath, "invalid_api_key", lines...)
		})
		c := p.dial()
		_ = c.send("POST " + chatPath + " HTTP/1.1\r\nHost: edge\r\nContent-Length: 0\r\n" + strings.Join(append(lines, ""), "\r\n") + "\r\n")
		texts[c.reply("POST").body] = true
	}
	if len(texts) != 1 {
		t.Errorf("the text tells why: %v", texts)
	}
	for _, lines := range [][]string{{"authorization: bearer " + p.key}, {"AUTHORIZATION:   Bearer   " + p.key + "  "}, {"X-API-KEY: " + p.key}} {
		body := p.chat("")
		c := p.dial()
		_ = c.send("POST " + chatPath + " HTTP/1.1\r\nHost: edge\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n" + lines[0] + "\r\n\r\n" + body)
		c.reply("POST").wantStatus(200)
	}
	if n := p.engines[0].Stats().Requests; n != 3 {
		t.Errorf("%d requests upstream, want 3", n)
	}
}

func TestFault53_TwoCredentials(t *testing.T) {
	t.Parallel()
	other, hash, _ := auth.NewKey()
	p := start(t, setup{keys: `- { id: other, hash: "` + hash + `" }`})
	bearer := "Authorization: Bearer "
	for name, lines := range map[string][]string{
		"both differ":          {bearer + p.key, "x-api-key: " + other},
		"one wrong":            {bearer + p.key, "x-api-key: wrong"},
		"other wrong":          {bearer + "wrong", "x-api-key: " + p.key},
		"two headers":          {bearer + p.key, bearer + other},
		"two equal headers":    {bearer + p.key, bearer + p.key},
		"two x-api-key":        {"x-api-key: " + p.key, "x-api-key: " + other},
		"two equal x-api-key":  {"x-api-key: " + p.key, "X-Api-Key: " + p.key},
		"list in one":          {bearer + p.key + ", Bearer " + other},
		"list in x-api-key":    {"x-api-key: " + p.key + ", " + other},
		"x-api-key not bearer": {"Authorization: Basic abc", "x-api-key: " + p.key},
	} {
		t.Run(name, func(t *testing.T) {
			body := p.chat("")
			c := p.dial()
			_ = c.send("POST " + chatPath + " HTTP/1.1\r\nHost: edge\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n" +
				strings.Join(append(lines, ""), "\r\n") + "\r\n" + body)
			r := c.reply("POST").wantStatus(401)
			if !strings.Contains(r.body, "credential_conflict") && !strings.Contains(r.body, "invalid_api_key") {
				t.Errorf("%s", r.body)
			}
		})
	}
	p.wantUnserved(t, 0)
	p.post(chatPath, p.chat(""), "x-api-key: "+p.key).wantStatus(200)
}

func TestFault54_CredentialInTheQuery(t *testing.T) {
	t.Parallel()
	p := start(t, setup{})
	for _, query := range []string{
		"api_key=%s", "api-key=%s", "apikey=%s", "APIKEY=%s", "Api_Key=%s", "key=%s", "access_token=%s", "token=%s", "x-api-key=%s", "X_API_KEY=%s",
		"authorization=Bearer%%20%s", "auth=%s", "bearer=%s", "secret=%s", "password=%s", "%%61pi_key=%s", "api%%5Fkey=%s", "api_key[]=%s", "api_key%%5B%%5D=%s",
		"x=1&api_key=%s", "x=1;api_key=%s", "api_key=", "api_key", "a.p.i.key=%s", "+api_key=%s", "api%%20key=%s", "api_key%%00=%s",
	} {
		q := query
		if strings.Contains(q, "%s") {
			q = fmt.Sprintf(query, p.key)
		}
		t.Run(query, func(t *testing.T) {
			t.Parallel()
			p.unauthorized(t, chatPath+"?"+q, "credential_in_query")
			p.unauthorized(t, chatPath+"?"+q, "credential_in_query", "Authorization: Bearer "+p.key)
			r := p.get("/v1/models?" + q)
			r.t = t
			r.wantError(401, "authentication_error", "credential_in_query")
		})
	}
	t.Run("undecodable", func(t *testing.T) {
		t.Parallel()
		c := p.dial()
		_ = c.send(strings.Replace(p.request(p.chat("")), chatPath, chatPath+"?%zz=1", 1))
		c.reply("POST").wantStatus(400)
	})
	t.Run("harmless", func(t *testing.T) {
		t.Parallel()
		p.post(chatPath+"?beta=true&x=y", p.chat("")).wantStatus(200)
	})
	t.Cleanup(func() { p.wantUnserved(t, 1) })
}

func TestFault55_NoRightToTheModel(t *testing.T) {
	t.Parallel()
	p := start(t, setup{
		engines: recording(), key: `models: ["sim"], operations: [chat]`,
		models: `- { id: secret, aliases: [hidden], deployments: [{ upstream: up-0, served: sim }] }`,
	})
	for _, model := range []string{"secret", "hidden"} {
		r := p.post(chatPath, chatBody(model, ""))
		e := r.wantError(403, "permission_error", "model_not_allowed")
		if e.Param == nil || *e.Param != "model" {
			t.Errorf("param %v", e.Param)
		}
	}
	p.post(chatPath, chatBody(`sec\u0072et`, "")).wantError(403, "permission_error", "model_not_allowed")
	rest := `"messages":[{"role":"user","content":"x"}]}`
	for _, smuggled := range []string{
		`{"model":"sim","model":"secret",` + rest, `{"model":"secret","model":"sim",` + rest, `{"model":"sim","mod\u0065l":"secret",` + rest,
		`{"model":"sim","Model":"secret",` + rest, `{"MODEL":"secret","model":"sim",` + rest, `{"model":"sim",` + rest[:len(rest)-1] + `,"model":"secret"}`,
	} {
		p.post(chatPath, smuggled).wantError(400, "invalid_request_error", "duplicate_member")
	}
	p.wantUnserved(t, 0)
	p.post(chatPath, chatBody("s\\u0069m", "")).wantStatus(200)
	if b := p.engines[0].Stats().LastRequest.Body; strings.Contains(string(b), "secret") {
		t.Errorf("the engine was asked with %.100s", b)
	}
}

func TestFault56_BodyIsNotJSON(t *testing.T) {
	t.Parallel()
	p := start(t, setup{})
	good := p.chat("")
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
		"NaN": p.chat(`"temperature":NaN`), "Infinity": p.chat(`"temperature":Infinity`), "-Infinity": p.chat(`"top_p":-Infinity`), "hex": p.chat(`"seed":0x10`), "leading zero": p.chat(`"seed":01`), "plus": p.chat(`"seed":+1`), "dot": p.chat(`"temperature":.5`), "dot end": p.chat(`"temperature":1.`),
		"BOM": "\xef\xbb\xbf" + good, "UTF-16": utf16(good), "comment": "/* x */" + good, "line comment": good + "// x", "single quotes": strings.ReplaceAll(good, `"`, `'`), "no quotes": "{model:1}",
		"raw newline": p.chat("\"user\":\"a\nb\""), "raw NUL": p.chat("\"user\":\"a\x00b\""), "raw tab": p.chat("\"user\":\"a\tb\""), "bad escape": p.chat(`"user":"\x41"`), "bad u": p.chat(`"user":"\u12"`),
		"invalid UTF-8": p.chat("\"user\":\"\xff\xfe\""), "overlong UTF-8": p.chat("\"user\":\"\xc0\xaf\""), "surrogate in UTF-8": p.chat("\"user\":\"\xed\xa0\x80\""), "cut UTF-8": p.chat("\"user\":\"\xe2\x82\""),
		"array": "[]", "string": `"x"`, "number": "1", "null": "null", "true": "true", "form": "model=sim&messages=x", "XML": "<?xml version=\"1.0\"?><x/>", "lone brace": "{", "NUL after": good + "\x00",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := p.post(chatPath, body)
			r.t = t
			r.wantStatus(400)
			if !strings.Contains(r.body, `"invalid_request_error"`) || strings.Contains(r.body, canary) {
				t.Errorf("%s", r.body)
			}
		})
	}
	t.Run("no body", func(t *testing.T) {
		t.Parallel()
		c := p.dial()
		_ = c.send(p.head("POST", chatPath, "Content-Type: application/json", "Content-Length: 0"))
		c.reply("POST").wantError(400, "invalid_request_error", "invalid_json")
	})
	t.Cleanup(func() { p.wantUnserved(t, 0) })
}

func TestFault57_JSONBombs(t *testing.T) {
	t.Parallel()
	p := start(t, setup{})
	var manyKeys, messages strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&manyKeys, `,"k%d":%d`, i, i)
	}
	for range 1_000_000 {
		messages.WriteString(`{"role":"user","content":"x"},`)
	}
	for name, body := range map[string]string{
		"10⁶ digits":       p.chat(`"seed":` + strings.Repeat("9", 1_000_000)),
		"10⁶ decimals":     p.chat(`"temperature":0.` + strings.Repeat("1", 1_000_000)),
		"1e999999":         p.chat(`"temperature":1e999999`),
		"-1e999999":        p.chat(`"presence_penalty":-1e999999`),
		"seed 1e999999999": p.chat(`"seed":1e999999999`),
		"max_tokens big":   p.chat(`"max_tokens":99999999999999999999999`),
		"depth of arrays":  p.chat(`"x":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)),
		"depth of objects": p.chat(`"x":` + strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000)),
		"depth open":       `{"x":` + strings.Repeat("[", 1_000_000),
		"10⁵ keys":         p.chat(`"metadata":{"a":1` + manyKeys.String() + `}`),
		"10⁵ keys on top":  p.chat(manyKeys.String()[1:]),
		"10⁶ messages":     `{"model":"sim","messages":[` + messages.String() + `{"role":"user","content":"x"}]}`,
		"blanks":           strings.Repeat(" ", 8<<20) + p.chat(""),
		"blanks inside":    `{` + strings.Repeat("\n", 8<<20) + p.chat("")[1:],
		"escapes":          p.chat(`"user":"` + strings.Repeat(`\u0041`, 1<<20) + `"`),
		"quotes":           p.chat(`"user":"` + strings.Repeat(`\"`, 2<<20) + `"`),
	} {
		t.Run(name, func(t *testing.T) {
			r := p.post(chatPath, body)
			r.t = t
			switch r.status {
			case 200:
			case 400:
				wantNoLeak(t, r.body)
			case 413:
			default:
				t.Errorf("status %d: %.200s", r.status, r.body)
			}
			if limit := time.Second + 4*slack; r.took > limit {
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
	p := start(t, setup{})
	series := p.series()
	rest := `"messages":[{"role":"user","content":"` + canary + `"}]}`
	for model, want := range map[string]int{
		`{` + rest: 400, `{"model":null,` + rest: 400, `{"model":1,` + rest: 400, `{"model":["sim"],` + rest: 400, `{"model":{"id":"sim"},` + rest: 400, `{"model":true,` + rest: 400, `{"model":"",` + rest: 400,
		`{"model":"` + canary + `",` + rest: 404, `{"model":"sim ",` + rest: 404, `{"model":" sim",` + rest: 404, `{"model":"SIM",` + rest: 404, `{"model":"sim\r\nX-Injected: 1",` + rest: 404,
		`{"model":"sim\u0000",` + rest: 404, `{"model":"../sim",` + rest: 404, `{"model":"` + strings.Repeat("m", 1<<20) + `",` + rest: 404, `{"model":"*",` + rest: 404, `{"model":"-",` + rest: 404,
	} {
		t.Run(fmt.Sprintf("%.40q", model), func(t *testing.T) {
			r := p.post(chatPath, model)
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
			wantNoLeak(t, r.body)
		})
	}
	for _, l := range p.calls() {
		if l.Model != "-" {
			t.Errorf("the log has the model %q", l.Model)
		}
	}
	for _, name := range p.series() {
		if !slices.Contains(series, name) && !strings.Contains(name, `model="-"`) && !strings.Contains(name, "penstock_errors_total") {
			t.Errorf("a new series: %s", name)
		}
	}
	p.wantUnserved(t, 0)
}

func TestFault59_BodyTooLarge(t *testing.T) {
	t.Parallel()
	p := start(t, setup{limits: "request_body: 1MiB"})
	const over = 200 << 20
	t.Run("declared", func(t *testing.T) {
		t.Parallel()
		c := p.dial()
		_ = c.send(p.head("POST", chatPath, "Content-Type: application/json", "Content-Length: "+strconv.Itoa(over)))
		r := c.reply("POST")
		r.t = t
		r.wantError(413, "request_too_large", "request_too_large")
		if _, closed := c.closed(5 * time.Second); !closed {
			t.Error("the connection stays open")
		}
	})
	t.Run("declared and sent", func(t *testing.T) {
		t.Parallel()
		// The client sends all of it before it reads, as some do.
		c := p.dial()
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		_ = c.send(p.head("POST", chatPath, "Content-Type: application/json", "Content-Length: "+strconv.Itoa(over)))
		sent := make(chan int64)
		go func() {
			n, _ := io.Copy(c.Conn, io.LimitReader(zeros{}, over))
			sent <- n
		}()
		r := c.reply("POST")
		r.t = t
		r.wantError(413, "request_too_large", "request_too_large")
		c.Close()
		if n := <-sent; n > 64<<20 {
			t.Errorf("%d bytes were taken from the client", n)
		}
	})
	t.Run("by the library", func(t *testing.T) {
		t.Parallel()
		for range 5 {
			r := p.post(chatPath, p.chat(`"user":"`+strings.Repeat("x", 8<<20)+`"`))
			r.t = t
			r.wantError(413, "request_too_large", "request_too_large")
		}
	})
	t.Run("just over, just under", func(t *testing.T) {
		t.Parallel()
		room := 1<<20 - len(p.chat(`"user":""`))
		p.post(chatPath, p.chat(`"user":"`+strings.Repeat("x", room)+`"`)).wantStatus(200)
		p.post(chatPath, p.chat(`"user":"`+strings.Repeat("x", room+1)+`"`)).wantStatus(413)
	})
	t.Run("chunked", func(t *testing.T) {
		t.Parallel()
		c := p.dial()
		_ = c.send(p.head("POST", chatPath, "Content-Type: application/json", "Transfer-Encoding: chunked"))
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
		r.wantError(413, "request_too_large", "request_too_large")
		c.Close()
		if n := <-sent; n > 64<<20 {
			t.Errorf("%d bytes were taken from the client", n)
		}
	})
	t.Run("without a key", func(t *testing.T) {
		t.Parallel()
		c := p.dial()
		_ = c.send("POST " + chatPath + " HTTP/1.1\r\nHost: edge\r\nContent-Length: " + strconv.Itoa(over) + "\r\n\r\n")
		c.reply("POST").wantStatus(401)
	})
	t.Cleanup(func() {
		p.wantUnserved(t, 1)
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if n := p.metric("penstock_body_memory_bytes"); n != 0 {
			t.Errorf("%v bytes of bodies are still held", n)
		}
	})
}

// zeros is an endless body.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestFault60_ContentEncoding(t *testing.T) {
	t.Parallel()
	p := start(t, setup{})
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, _ = io.WriteString(w, p.chat(""))
	_ = w.Close()
	for _, enc := range []string{"gzip", "GZIP", "deflate", "br", "zstd", "gzip, identity", "identity, gzip", "x-gzip", "compress", "nonsense"} {
		t.Run(enc, func(t *testing.T) {
			t.Parallel()
			r := p.post(chatPath, z.String(), "Content-Encoding: "+enc)
			r.t = t
			r.wantError(415, "invalid_request_error", "unsupported_media_type")
		})
	}
	t.Run("identity", func(t *testing.T) {
		t.Parallel()
		p.post(chatPath, p.chat(""), "Content-Encoding: identity").wantStatus(200)
	})
	t.Cleanup(func() { p.wantUnserved(t, 1) })
}

// picture is a data URL of a small picture.
func picture(format string) string {
	img := image.NewRGBA(image.Rect(0, 0, 16, 16))
	var b bytes.Buffer
	if format == "png" {
		_ = png.Encode(&b, img)
	} else {
		_ = jpeg.Encode(&b, img, nil)
	}
	return "data:image/" + format + ";base64," + base64.StdEncoding.EncodeToString(b.Bytes())
}

// visionBody is a chat request with one image.
func visionBody(url, more string) string {
	if more != "" {
		more = "," + more
	}
	return `{"model":"sim","messages":[{"role":"user","content":[{"type":"text","text":"` + canary + `"},{"type":"image_url","image_url":{"url":"` + url + `"}}]}]` + more + `}`
}

func TestFault64_ImageURLs(t *testing.T) {
	t.Parallel()
	trap := listenLoopback(t)
	t.Cleanup(func() { trap.Close() })
	fetched := make(chan struct{}, 1)
	go func() {
		if c, err := trap.Accept(); err == nil {
			c.Close()
			fetched <- struct{}{}
		}
	}()
	p := start(t, setup{engines: recording(), model: "input_modalities: [text, image]"})
	for _, url := range []string{
		"http://example.com/x.png", "http://" + trap.Addr().String() + "/x.png", "file:///etc/passwd", "ftp://example.com/x.png", "gopher://x", "//example.com/x.png", "/etc/passwd", "x.png", "",
		"https://127.0.0.1/x.png", "https://10.0.0.1/x.png", "https://[::1]/x.png", "https://169.254.169.254/latest/meta-data", "https://2130706433/x.png", "https://0x7f000001/x", "https://0177.0.0.1/x", "https://127.1/x",
		"https://user:pw@example.com/x.png", "https://user@example.com/x.png", "https:///x.png", "https://", "HTTPS:example.com", "javascript:alert(1)", "data:text/html;base64,PGI+", "data:image/svg+xml;base64,PHN2Zy8+",
		"data:image/gif;base64,R0lGODlhAQABAAAAACw=", "data:image/png;base64,!!!", "data:image/png,raw", "data:image/png;base64,", "data:image/png;base64,aGVsbG8=", "https://exa mple.com/x", "https://example.com\\u0000/x", "https://localhost/x.png",
		strings.Replace(picture("jpeg"), "image/jpeg", "image/gif", 1),
	} {
		t.Run(fmt.Sprintf("%.50q", url), func(t *testing.T) {
			r := p.post(chatPath, visionBody(url, ""))
			r.t = t
			r.wantStatus(400)
			if !strings.Contains(r.body, "messages[0].content[1].image_url") {
				t.Errorf("param: %s", r.body)
			}
			if url != "" && len(url) > 8 && strings.Contains(r.body, url) {
				t.Error("the URL is echoed")
			}
		})
	}
	p.wantUnserved(t, 0)
	for _, url := range []string{"https://example.com/x.png", picture("png"), picture("jpeg")} {
		p.post(chatPath, visionBody(url, "")).wantStatus(200)
		if !strings.Contains(string(p.engines[0].Stats().LastRequest.Body), url) {
			t.Errorf("the image did not reach the engine as it was: %.60q", url)
		}
	}
	select {
	case <-fetched:
		t.Error("an image was fetched")
	default:
	}
}
