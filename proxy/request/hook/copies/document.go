package copies

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"time"
	"unicode/utf8"
)

type queuedCopy struct {
	CallInfo
	requested       string // model that the client requested
	request, answer capturedBody
	reserved        int64
}

// copyDocument is the JSON object that is sent to a sink for a copy. README.md describes its
// members.
type copyDocument struct {
	Version   int         `json:"version"`
	Hook      string      `json:"hook"`
	RequestID string      `json:"request_id"`
	Key       string      `json:"key"`
	Model     string      `json:"model"`
	Answered  string      `json:"answered_by,omitempty"`
	Endpoint  string      `json:"endpoint"`
	Stream    bool        `json:"stream"`
	Time      string      `json:"time"`
	Duration  float64     `json:"duration_ms"`
	TTFT      float64     `json:"ttft_ms,omitempty"`
	Status    int         `json:"status"`
	Outcome   string      `json:"outcome"`
	Code      string      `json:"code,omitempty"`
	Request   copyContent `json:"request"`
	Answer    copyContent `json:"answer"`
}

type copyContent struct {
	Bytes     int64   `json:"bytes"` // size of the complete request or answer
	Truncated bool    `json:"truncated,omitempty"`
	Body      *string `json:"body,omitempty"`
	Base64    string  `json:"body_base64,omitempty"` // used instead of Body if the bytes are not UTF-8
}

const documentVersion = 1

func appendJSONLine(dst []byte, hook string, e *queuedCopy) ([]byte, error) {
	millis := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	to := bytes.NewBuffer(dst)
	enc := json.NewEncoder(to)
	enc.SetEscapeHTML(false)
	answered := e.Model
	if answered == e.requested {
		answered = ""
	}
	err := enc.Encode(&copyDocument{
		Version: documentVersion, Hook: hook, RequestID: e.RequestID, Key: e.Key, Model: e.requested, Answered: answered, Endpoint: e.Endpoint,
		Stream: e.Stream, Time: e.Start.UTC().Format(time.RFC3339Nano), Duration: millis(e.Took), TTFT: millis(e.TTFT),
		Status: e.Status, Outcome: e.Outcome, Code: e.Code, Request: newBodyContent(&e.request), Answer: newBodyContent(&e.answer),
	})
	return to.Bytes(), err
}

func newBodyContent(p *capturedBody) copyContent {
	c := copyContent{Bytes: p.size, Truncated: p.size > int64(len(p.bytes))}
	text := p.bytes
	if c.Truncated {
		text = trimPartialRune(text)
	}
	if utf8.Valid(text) {
		c.Body = new(string(text))
	} else {
		c.Base64 = base64.StdEncoding.EncodeToString(p.bytes)
	}
	return c
}

func trimPartialRune(b []byte) []byte {
	for i := len(b) - 1; i >= max(0, len(b)-utf8.UTFMax); i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return b[:i]
			}
			break
		}
	}
	return b
}
