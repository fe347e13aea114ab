package acme

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestDirectoryIsBounded: a directory cannot fill the memory, lead elsewhere or to plain HTTP.
func TestDirectoryIsBounded(t *testing.T) {
	elsewhere := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
	defer other.Close()
	directory := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/long":
			_, _ = io.Copy(w, io.LimitReader(strings.NewReader(strings.Repeat(" ", 4*mostAnswer)), 4*mostAnswer))
		case "/moved":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		}
	}))
	defer directory.Close()
	c := newClient(directory.Client().Transport)
	get := func(url string) (int, int, error) {
		r, err := c.Get(url)
		if err != nil {
			return 0, 0, err
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		return r.StatusCode, len(text), err
	}
	if _, n, err := get(directory.URL + "/long"); n != mostAnswer || !errors.Is(err, errLongAnswer) {
		t.Errorf("a long answer: %d bytes, %v", n, err)
	}
	if status, _, err := get(directory.URL + "/moved"); status != 307 || err != nil {
		t.Errorf("a redirect: %d, %v", status, err)
	}
	if _, _, err := get(other.URL); err == nil || !strings.Contains(err.Error(), "must be https") {
		t.Errorf("plain HTTP: %v", err)
	}
	if elsewhere != 0 {
		t.Errorf("another host was asked %d times", elsewhere)
	}
}

// TestDescribe: what a directory says cannot drive a terminal.
func TestDescribe(t *testing.T) {
	if got := describe(errors.New("no\x1b]0;x\x07\n\u202eyes"), false); strings.ContainsAny(got, "\x1b\x07\n\u202e") {
		t.Errorf("%q", got)
	}
}
