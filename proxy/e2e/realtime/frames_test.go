package realtime

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/coder/websocket"

	"penstock/proxy/e2e/rig"
)

// The client and the engine in these tests use no library, so that they can violate RFC 6455, 5.2.

const (
	opText   = 0x1
	opBinary = 0x2
	opClose  = 0x8
	opPing   = 0x9
	fin      = 0x80
)

// handshake returns a request for a session.
func handshake(p *rig.LocalEdge, query string, lines ...string) string {
	return p.RequestHead("GET", path+query, append(lines, "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")...)
}

// update names the model, and hello is audio.
const update = `{"type":"session.update","session":{"type":"transcription","audio":{"input":{"transcription":{"model":"ears"}}}}}`

var audioMessage = `{"type":"input_audio_buffer.append","audio":"` + strings.Repeat("A", 6400) + `"}`

// code reads up to the close frame and returns its code.
func code(t *testing.T, c *rig.RawConn) int {
	t.Helper()
	for {
		op, payload, err := c.ReadFrame()
		if err != nil {
			t.Error(err)
			return 0
		}
		if op == opClose {
			return int(binary.BigEndian.Uint16([]byte(payload + "\x00\x00")))
		}
	}
}

// TestFault100_RealtimeFrames checks that forbidden frames from a client end only this client's
// session, with the correct code, with and without a model. Afterwards, the slot of the session
// must be free.
func TestFault100_RealtimeFrames(t *testing.T) {
	t.Parallel()
	p := rig.Start(t, vllm(""))
	other := dial(t, p.Edge, "?model=ears")
	for name, row := range map[string]struct {
		bytes string
		code  int
	}{
		"unmasked":                 {rig.WebSocketFrame(fin|opText, audioMessage, false), 1002},
		"a reserved bit":           {rig.WebSocketFrame(fin|0x40|opText, audioMessage, true), 1002},
		"a reserved kind":          {rig.WebSocketFrame(fin|0x3, audioMessage, true), 1002},
		"a continuation":           {rig.WebSocketFrame(fin, audioMessage, true), 1002},
		"a message within another": {rig.WebSocketFrame(opText, audioMessage, true) + rig.WebSocketFrame(fin|opText, audioMessage, true), 1002},
		"a ping in pieces":         {rig.WebSocketFrame(opPing, "x", true), 1002},
		"a close of one byte":      {rig.WebSocketFrame(fin|opClose, "x", true), 1002},
		"bytes":                    {rig.WebSocketFrame(fin|opBinary, audioMessage, true), 1003},
		"not UTF-8":                {rig.WebSocketFrame(fin|opText, "{\"type\":\"\xff\"}", true), 1007},
		"an endless message":       {string([]byte{fin | opText, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}), 1009},
		"cut":                      {rig.WebSocketFrame(fin|opText, audioMessage, true)[:3000], 0},
	} {
		for _, query := range []string{"?model=ears", ""} {
			t.Run(name+query, func(t *testing.T) {
				c := p.Dial()
				_ = c.Send(handshake(p, query))
				c.ReadReply("GET").WantStatus(101)
				_ = c.Send(row.bytes)
				if row.code == 0 {
					c.Reset()
				} else if got := code(t, c); got != row.code {
					t.Errorf("closed with %d, want %d", got, row.code)
				}
				c.Close()
				rig.WaitFor(t, rig.WaitTimeout, "the slot is free", func() bool { return p.Engines[0].Stats().Running == 1 })
			})
		}
	}
	other.sendAudio(300)
	other.send(`{"type":"input_audio_buffer.commit"}`)
	other.readUntil(completed)
	_ = other.ws.Close(websocket.StatusNormalClosure, "")
	waitNoSessions(t, p)
}

// TestFault100_RealtimeEngineFrames checks an engine whose frames violate the protocol. A session
// that has sent audio must end, and no part of these frames may reach the client.
func TestFault100_RealtimeEngineFrames(t *testing.T) {
	t.Parallel()
	delta := `{"type":"transcription.delta","delta":"` + rig.Canary + `"}`
	for name, bytes := range map[string]string{
		"masked":               rig.WebSocketFrame(fin|opText, delta, true),
		"a reserved bit":       rig.WebSocketFrame(fin|0x40|opText, delta, false),
		"bytes":                rig.WebSocketFrame(fin|opBinary, delta, false),
		"not UTF-8":            rig.WebSocketFrame(fin|opText, strings.Replace(delta, `":"`+rig.Canary, `":"`+"\xff"+rig.Canary, 1), false),
		"an endless message":   string([]byte{fin | opText, 0x7f, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}) + strings.Repeat(delta, 2<<20/len(delta)),
		"2 MB":                 rig.WebSocketFrame(fin|opText, strings.Replace(delta, rig.Canary, strings.Repeat(rig.Canary, 2<<20/len(rig.Canary)), 1), false),
		"a delta of no text":   rig.WebSocketFrame(fin|opText, `{"type":"transcription.delta","delta":{"a":"`+rig.Canary+`"}}`, false),
		"another type":         rig.WebSocketFrame(fin|opText, `["`+rig.Canary+`"]`, false),
		"a close":              rig.WebSocketFrame(fin|opClose, "\x03\xe8"+rig.Canary, false),
		"a close of an attack": rig.WebSocketFrame(fin|opClose, "\x03\xef"+rig.Canary, false),
		"not a frame":          "HTTP/1.1 500 Internal Server Error\r\n\r\n" + rig.Canary,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := vllm("")
			s.Config = strings.ReplaceAll(s.Config, `"{{up-0}}"`, `"`+badEngine(t, bytes)+`"`)
			p := rig.Start(t, s)
			c := dial(t, p.Edge, "?model=ears")
			c.sendAudio(100)
			if e := c.wantError("upstream_bad_response"); strings.Contains(e.text, rig.Canary) || !utf8.ValidString(e.text) {
				t.Errorf("%s", e.text)
			}
			c.wantClosed(websocket.StatusInternalError)
			p.WaitIdle()
			if call := p.LastAccessLine(); call.Outcome != "stream_broken" || call.Attempts != 1 {
				t.Errorf("%+v", call)
			}
		})
	}
}

// badEngine runs an engine that answers the first message after the session's settings with the
// given bytes.
func badEngine(t *testing.T, bytes string) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path {
			_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"sim","object":"model"}]}`)
			return
		}
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "+
			base64.StdEncoding.EncodeToString(sum[:])+"\r\n\r\n"+rig.WebSocketFrame(fin|opText, `{"type":"session.created","id":"s"}`, false))
		in := bufio.NewReader(conn)
		for range 3 { // reads the settings, the start of an item, and audio
			if _, err := io.CopyN(io.Discard, in, frameLength(in)); err != nil {
				return
			}
		}
		_, _ = io.WriteString(conn, bytes)
		_, _ = io.Copy(io.Discard, in)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// frameLength returns the length of the next frame, which must be masked.
func frameLength(in *bufio.Reader) int64 {
	head, err := in.Peek(4)
	switch {
	case err != nil:
		return 0
	case head[1]&0x7f == 126:
		return 8 + int64(binary.BigEndian.Uint16(head[2:]))
	}
	return 6 + int64(head[1]&0x7f)
}

// TestAudioBehindSettings checks that audio may directly follow the settings that name the model,
// even in the same packet. The audio's message may be larger than is allowed before the settings.
func TestAudioBehindSettings(t *testing.T) {
	t.Parallel()
	p := rig.Start(t, vllm(""))
	long := strings.Replace(audioMessage, "AAAA", strings.Repeat("AAAA", 32<<10), 1) // a message of 128 KB
	c := p.Dial()
	_ = c.Send(handshake(p, "?intent=transcription") + rig.WebSocketFrame(fin|opText, update, true) + rig.WebSocketFrame(fin|opText, long, true) +
		rig.WebSocketFrame(fin|opText, `{"type":"input_audio_buffer.commit"}`, true))
	c.ReadReply("GET").WantStatus(101)
	var seen strings.Builder
	for !strings.Contains(seen.String(), completed) {
		op, payload, err := c.ReadFrame()
		if err != nil || op != opText {
			t.Fatalf("%v, %d %q; so far: %s", err, op, payload, seen.String())
		}
		seen.WriteString(payload + "\n")
	}
	for _, kind := range []string{"session.created", "session.updated", ".delta", "input_audio_buffer.committed"} {
		if !strings.Contains(seen.String(), kind) {
			t.Errorf("no %s: %s", kind, seen.String())
		}
	}
	_ = c.Send(rig.WebSocketFrame(fin|opClose, "\x03\xe8", true))
	if got := code(t, c); got != 1000 {
		t.Errorf("closed with %d, want 1000", got)
	}
	waitNoSessions(t, p)
}

// TestOrigins checks which web pages may open a session. For a listed origin, both the response to
// the upgrade and a refusal must contain Access-Control-Allow-Origin.
func TestOrigins(t *testing.T) {
	t.Parallel()
	p := rig.Start(t, vllm("cors: { origins: [\"https://listed.example\"] }\n"))
	for _, one := range []struct {
		query, origin string
		status        int
		allowed       string
	}{
		{"?model=ears", "https://listed.example", 101, "https://listed.example"},
		{"", "https://listed.example", 101, "https://listed.example"},
		{"?model=nothing", "https://listed.example", 404, "https://listed.example"},
		{"?intent=conversation", "https://listed.example", 400, "https://listed.example"},
		{"?model=ears", "http://edge", 101, ""},
		{"?model=ears", "https://elsewhere.example", 403, ""},
	} {
		c := p.Dial()
		_ = c.Send(handshake(p, one.query, "Origin: "+one.origin))
		if r := c.ReadReply("GET").WantStatus(one.status); r.Header.Get("Access-Control-Allow-Origin") != one.allowed {
			t.Errorf("%s from %s: %v, want %q", one.query, one.origin, r.Header, one.allowed)
		}
		c.Close()
	}
	waitNoSessions(t, p)
}
