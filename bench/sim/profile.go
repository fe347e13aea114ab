package sim

import (
	"slices"
	"strconv"
	"time"
)

// profile is what tells one engine from another on the wire; engines.md is where each value was seen. Its contents are
// never changed after New.
type profile struct {
	name       string
	server     string // Server header
	dated      bool   // sends Date
	lower      bool   // header names in lower case, as uvicorn writes them
	headers    string // further lines on every answer
	sseHeaders string // further lines on streams
	jsonType   string
	sseType    string
	reasoning  string        // member for reasoning text
	headFirst  bool          // a stream's head goes out when the slot is free, not with the first token
	joins      bool          // role and first token share a chunk, so do the last events
	errorDone  bool          // [DONE] follows an error event
	wholeTools bool          // a tool call comes in one delta
	latest     bool          // ":latest" may be left out of names
	oneChoice  bool          // n is ignored
	firstTool  bool          // tool_choice is ignored
	fullInBand bool          // a full queue answers a stream with 200 and an error event
	typed      bool          // refuses a Content-Type that is not JSON
	overrun    bool          // a prompt that fits but leaves too little room is not refused: the answer is cut
	local      bool          // on loopback, refuses a Host or Origin that is not local
	auth       string        // which paths need the key: "v1", "all", ""
	unknown    unknownModel  // what becomes of a model it does not have
	ping       time.Duration // between comments in a silent stream
	idle       time.Duration // an idle connection's life; 0: for ever
	perConn    int           // requests a connection; 0: no bound
	health     time.Duration // how long /health takes
	callID     func(n uint64) string
	answerID   func(n uint64) string
	page404    string // body for unknown paths, empty: an error of the profile's own shape
}

type unknownModel uint8

const (
	unknownRefused unknownModel = iota
	unknownServed               // answered under the first served name
	unknownEcho                 // answered under the asked name
)

var profiles = map[string]*profile{
	"vllm": {
		name: "vllm", server: "uvicorn", dated: true, lower: true,
		jsonType: "application/json", sseType: "text/event-stream; charset=utf-8",
		reasoning: "reasoning", headFirst: true, errorDone: true, typed: true, auth: "v1", idle: 5 * time.Second,
		callID:   func(n uint64) string { return "chatcmpl-tool-" + hex32(n) },
		answerID: func(n uint64) string { return "chatcmpl-" + hex32(n) },
		page404:  `{"detail":"Not Found"}`,
	},
	"openai": {
		name: "openai", dated: true, jsonType: "application/json", sseType: "text/event-stream; charset=utf-8",
		reasoning: "reasoning_content", headFirst: true, auth: "all",
		callID:   func(n uint64) string { return "call_" + hex32(n)[:24] },
		answerID: func(n uint64) string { return "chatcmpl-" + hex32(n)[:29] },
	},
	"llamacpp": {
		name: "llamacpp", server: "llama.cpp", headers: "Access-Control-Allow-Origin: \r\n", sseHeaders: "X-Accel-Buffering: no\r\n",
		jsonType: "application/json; charset=utf-8", sseType: "text/event-stream",
		reasoning: "reasoning_content", headFirst: true, joins: true, overrun: true, auth: "all", unknown: unknownServed,
		ping: 30 * time.Second, idle: 5 * time.Second, perConn: 100,
		callID:   hex32,
		answerID: func(n uint64) string { return "chatcmpl-" + hex32(n) },
	},
	"sglang": {
		name: "sglang", server: "uvicorn", dated: true, lower: true,
		jsonType: "application/json", sseType: "text/event-stream; charset=utf-8",
		reasoning: "reasoning_content", headFirst: true, errorDone: true, fullInBand: true, typed: true, auth: "all", unknown: unknownEcho,
		idle: 5 * time.Second, health: time.Second,
		callID:   func(n uint64) string { return "call_" + hex32(n)[:24] },
		answerID: hex32,
		page404:  `{"detail":"Not Found"}`,
	},
	"ollama": {
		name: "ollama", dated: true, jsonType: "application/json", sseType: "text/event-stream",
		reasoning: "reasoning", joins: true, wholeTools: true, latest: true, oneChoice: true, firstTool: true, local: true,
		callID:   hex32,
		answerID: func(n uint64) string { return "chatcmpl-" + strconv.FormatUint(n%1000, 10) },
	},
}

// Profiles are the names that Options.Profile knows, sorted.
func Profiles() []string {
	var names []string
	for n := range profiles {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// hex32 is 32 letters that look random.
func hex32(n uint64) string {
	const hex = "0123456789abcdef"
	var b [32]byte
	a, c := mix(n, 1), mix(n, 2)
	for i := range 16 {
		b[i], b[i+16] = hex[a>>(4*i)&15], hex[c>>(4*i)&15]
	}
	return string(b[:])
}

// apiError is an error answer before it is put in an engine's shape.
type apiError struct {
	status  int
	message string
	kind    string // type; empty: the profile's name for the status
	code    string // OpenAI's string code, where the profile has one
	param   string
	extra   string // further members, as `,"name":value`
}

func (p *profile) kind(status int) string {
	switch p.name {
	case "vllm":
		switch status {
		case 400:
			return "BadRequestError"
		case 401, 403:
			return "AuthenticationError"
		case 404:
			return "NotFoundError"
		case 422:
			return "UnprocessableEntityError"
		case 429:
			return "RateLimitError"
		case 501:
			return "NotImplementedError"
		case 503:
			return "ServiceUnavailableError"
		}
		return "InternalServerError"
	case "sglang":
		switch status {
		case 400:
			return "Bad Request"
		case 500:
			return "InternalServerError"
		}
		return strconv.Itoa(status)
	case "llamacpp":
		switch status {
		case 401:
			return "authentication_error"
		case 403:
			return "permission_error"
		case 404:
			return "not_found_error"
		case 501:
			return "not_supported_error"
		case 503:
			return "unavailable_error"
		}
		if status < 500 {
			return "invalid_request_error"
		}
		return "server_error"
	}
	switch status {
	case 401:
		return "authentication_error"
	case 403:
		return "permission_error"
	case 404:
		return "not_found_error"
	case 429:
		return "rate_limit_error"
	}
	switch {
	case status < 500:
		return "invalid_request_error"
	case p.name == "ollama":
		return "api_error"
	}
	return "server_error"
}

// appendError writes the error in the profile's shape.
func (p *profile) appendError(dst []byte, a apiError) []byte {
	kind := a.kind
	if kind == "" {
		kind = p.kind(a.status)
	}
	str := func(name, v string, orNull bool) {
		dst = append(dst, '"')
		dst = append(dst, name...)
		dst = append(dst, `":`...)
		if v == "" && orNull {
			dst = append(dst, "null"...)
			return
		}
		dst = appendString(dst, v)
	}
	switch p.name {
	case "sglang":
		dst = append(dst, `{"object":"error",`...)
		str("message", a.message, false)
		dst = append(dst, ',')
		str("type", kind, false)
		dst = append(dst, ',')
		str("param", a.param, true)
		dst = append(dst, `,"code":`...)
		dst = strconv.AppendInt(dst, int64(a.status), 10)
		dst = append(dst, a.extra...)
		return append(dst, '}')
	case "llamacpp":
		dst = append(dst, `{"error":{"code":`...)
		dst = strconv.AppendInt(dst, int64(a.status), 10)
		dst = append(dst, ',')
		str("message", a.message, false)
		dst = append(dst, ',')
		str("type", kind, false)
		dst = append(dst, a.extra...)
		return append(dst, "}}"...)
	}
	dst = append(dst, `{"error":{`...)
	str("message", a.message, false)
	dst = append(dst, ',')
	str("type", kind, false)
	dst = append(dst, ',')
	str("param", a.param, true)
	if p.name == "vllm" {
		dst = append(dst, `,"code":`...)
		dst = strconv.AppendInt(dst, int64(a.status), 10)
	} else {
		dst = append(dst, ',')
		str("code", a.code, true)
	}
	dst = append(dst, a.extra...)
	return append(dst, "}}"...)
}

// appendStreamError writes the error as the data of an event: always an object with an error member.
func (p *profile) appendStreamError(dst []byte, a apiError) []byte {
	if p.name != "sglang" {
		return p.appendError(dst, a)
	}
	dst = append(dst, `{"error":`...)
	dst = p.appendError(dst, a)
	return append(dst, '}')
}

// fail answers with an error.
func (x *exchange) fail(a apiError) {
	if body, ok := x.appendNativeError(nil, a); ok {
		x.json(a.status, body)
		return
	}
	x.json(a.status, x.p.appendError(nil, a))
}
