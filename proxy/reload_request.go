package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
)

// reloadPatience is how long RequestReload waits: reading the files, and warmUp.
const reloadPatience = 30 * time.Second

// RequestReload asks a running edge to read its configuration again and writes to w what changed. admin is the base URL of
// its admin listener, or its address; token is the admin token, empty where there is none. The error says why nothing was
// reloaded: every problem of the files, one to a line, or why the edge could not be asked.
func RequestReload(admin, token string, w io.Writer) error {
	if !strings.Contains(admin, "://") {
		admin = "http://" + admin
	}
	req, res := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(res)
	req.SetRequestURI(strings.TrimRight(admin, "/") + "/-/reload")
	req.Header.SetMethod(fasthttp.MethodPost)
	req.Header.Set("Connection", "close")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	client := fasthttp.Client{
		DialDualStack: true,
		RetryIfErr:    func(*fasthttp.Request, int, error) (bool, bool) { return false, false },
	}
	if err := client.DoTimeout(req, res, reloadPatience); err != nil {
		return fmt.Errorf("ask the edge at %s: %w; --admin is the address of its admin listener", admin, err)
	}
	switch res.StatusCode() {
	case fasthttp.StatusOK, fasthttp.StatusUnprocessableEntity:
	case fasthttp.StatusUnauthorized:
		return errors.New("the edge wants its admin token (admin.token): give it with --token")
	default:
		return fmt.Errorf("%s answers %d: that is not the admin listener of a penstock", admin, res.StatusCode())
	}
	var r ReloadResult
	if err := json.Unmarshal(res.Body(), &r); err != nil {
		return fmt.Errorf("%s gives an answer that is not a penstock's", admin)
	}
	return r.report(w)
}

// report writes what a reload changed, or returns what kept it from happening.
func (r *ReloadResult) report(w io.Writer) error {
	if !r.OK {
		return fmt.Errorf("not reloaded, version %d stays in use:\n%s", r.Version, strings.Join(r.Problems, "\n"))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "reloaded in %.0f ms: version %d\n", r.Seconds*1000, r.Version)
	if len(r.Changes)+len(r.Restart) == 0 {
		b.WriteString("nothing has changed\n")
	}
	for _, c := range append(r.Changes, r.Restart...) {
		fmt.Fprintf(&b, "  %s\n", c)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
