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

// RequestReload asks a running edge to reload as q says (its Source is the edge's to name) and writes to w what changed, or
// would. admin is the base URL of its admin listener, or its address; token is the admin token, empty where there is none.
// The error says why nothing was reloaded: every problem of the files, one to a line, or why the edge could not be asked.
func RequestReload(admin, token string, q ReloadRequest, w io.Writer) error {
	if !strings.Contains(admin, "://") {
		admin = "http://" + admin
	}
	req, res := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(res)
	req.SetRequestURI(fmt.Sprintf("%s/-/reload?force=%t&dry_run=%t", strings.TrimRight(admin, "/"), q.Force, q.DryRun))
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
	var b strings.Builder
	switch {
	case !r.OK && r.DryRun:
		b.WriteString("it would be refused\n")
	case !r.OK:
		return fmt.Errorf("not reloaded, version %d stays in use:\n%s", r.Version, strings.Join(r.Problems, "\n"))
	case r.Unchanged:
		fmt.Fprintf(&b, "unchanged: version %d stays in use\n", r.Version)
	case r.DryRun:
		fmt.Fprintf(&b, "not applied: version %d stays in use\n", r.Version)
	default:
		fmt.Fprintf(&b, "reloaded in %.0f ms: version %d\n", r.Seconds*1000, r.Version)
	}
	for _, c := range r.Capacity {
		fmt.Fprintf(&b, "  %s\n", c)
	}
	for _, c := range append(r.Changes, r.Restart...) {
		fmt.Fprintf(&b, "  %s\n", c)
	}
	if _, err := io.WriteString(w, b.String()); err != nil || r.OK {
		return err
	}
	return errors.New(strings.Join(r.Problems, "\n"))
}
