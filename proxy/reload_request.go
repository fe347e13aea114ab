package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/proxy/plaintext"
)

// reloadPatience is how long RequestReload waits: reading the files, and warmUp.
const reloadPatience = 30 * time.Second

// RequestReload asks a running edge to reload as q says (its Source is the edge's to name) and writes to w what changed, or
// would. admin is the base URL of its admin listener, or its address; token is the admin token, empty where there is none.
// The error says why nothing was reloaded: every problem of the files, one to a line, or why the edge could not be asked.
func RequestReload(admin, token string, q ReloadRequest, w io.Writer) error {
	path := fmt.Sprintf("/-/reload?force=%t&dry_run=%t", q.Force, q.DryRun)
	body, err := askAdmin(fasthttp.MethodPost, admin, path, token, q.Candidate, reloadPatience)
	if err != nil {
		return err
	}
	var r ReloadResult
	if err := json.Unmarshal(body, &r); err != nil {
		return fmt.Errorf("%s gives an answer that is not a penstock's", admin)
	}
	return r.report(w)
}

// report writes what a reload changed, or returns what kept it from happening.
func (r *ReloadResult) report(w io.Writer) error {
	var b strings.Builder
	switch {
	case r.KeysInForce && r.DryRun:
		b.WriteString("it would be refused: its keys would be in force, its models would not\n")
	case !r.OK && r.DryRun:
		b.WriteString("it would be refused\n")
	case r.KeysInForce:
		return fmt.Errorf("keys are in force, models are not: of all the rest version %d stays in use:\n%s", r.Version, strings.Join(r.Problems, "\n"))
	case !r.OK:
		return fmt.Errorf("not reloaded, version %d stays in use:\n%s", r.Version, plaintext.Text(strings.Join(r.Problems, "\n")))
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
	if _, err := io.WriteString(w, plaintext.Text(b.String())); err != nil || r.OK {
		return err
	}
	return errors.New(plaintext.Text(strings.Join(r.Problems, "\n")))
}
