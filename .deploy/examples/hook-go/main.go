// Hook-go is a small decision hook for Penstock. It refuses requests that contain a word, and
// replaces another word before an engine sees it. Use it as the start of your own hook:
//
//	go run . --listen 127.0.0.1:8090 --refuse swordfish --mask Bond
//
// and in the configuration
//
//	hooks: [{ name: guard, before: "http://127.0.0.1:8090/decide", send: body }]
//
// It does not store or log the text of requests.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// question is what the edge sends. A hook ignores the members that it does not need.
type question struct {
	Model string          `json:"model"`
	Key   string          `json:"key"`
	Body  json.RawMessage `json:"body"` // absent for uploads, and if the hook is not configured with "send: body"
}

// decision is what the edge reads.
type decision struct {
	Action  string `json:"action"`
	Status  int    `json:"status,omitempty"`
	Message string `json:"message,omitempty"`
	Body    any    `json:"body,omitempty"`
}

type guard struct{ refuse, mask string }

// decide returns the decision about a request.
func (g guard) decide(q *question) (decision, error) {
	if q.Body == nil {
		return decision{Action: "allow"}, nil
	}
	var body any
	d := json.NewDecoder(bytes.NewReader(q.Body))
	d.UseNumber() // keeps every number as it is written
	if err := d.Decode(&body); err != nil {
		return decision{}, err
	}
	found, masked := false, false
	body = eachText(body, func(text string) string {
		found = found || g.refuse != "" && strings.Contains(text, g.refuse)
		if g.mask == "" || !strings.Contains(text, g.mask) {
			return text
		}
		masked = true
		return strings.ReplaceAll(text, g.mask, "[removed]")
	})
	switch {
	case found:
		return decision{Action: "refuse", Status: 403, Message: "The request contains a word that is not allowed here."}, nil
	case masked:
		return decision{Action: "rewrite", Body: body}, nil
	}
	return decision{Action: "allow"}, nil
}

// eachText replaces every string value in v with the result of edit, and returns v. It does not
// change member names.
func eachText(v any, edit func(string) string) any {
	switch v := v.(type) {
	case string:
		return edit(v)
	case []any:
		for i := range v {
			v[i] = eachText(v[i], edit)
		}
	case map[string]any:
		for name := range v {
			v[name] = eachText(v[name], edit)
		}
	}
	return v
}

func (g guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q question
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, "not a question", http.StatusBadRequest)
		return
	}
	answer, err := g.decide(&q)
	if err != nil {
		http.Error(w, "not a request", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

func main() {
	listen := flag.String("listen", "127.0.0.1:8090", "the address to listen at")
	refuse := flag.String("refuse", "", "refuse requests that contain this word")
	mask := flag.String("mask", "", "replace this word")
	flag.Parse()
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("listening at", l.Addr())
	s := &http.Server{Handler: guard{*refuse, *mask}, ReadHeaderTimeout: 5 * time.Second}
	fmt.Fprintln(os.Stderr, s.Serve(l))
	os.Exit(1)
}
