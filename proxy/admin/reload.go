package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/proxy/plaintext"
	"penstock/proxy/status"
)

// ReloadRequest says how to reload. A changed file and SIGHUP set the source alone.
type ReloadRequest struct {
	Source string // for the log: file, SIGHUP, request
	Force  bool   // apply it although a model that serves calls is left without a slot
	DryRun bool   // only say what would change
	// Candidate is the text of another file, for a dry run; nil: the file that the edge was started
	// with.
	Candidate []byte
}

// ReloadResult is how one reload ended. It holds names of settings and problems of the file, and no
// secrets.
type ReloadResult struct {
	At        time.Time `json:"at"`
	Source    string    `json:"source"`
	OK        bool      `json:"ok"`
	DryRun    bool      `json:"dry_run,omitempty"`
	Forced    bool      `json:"forced,omitempty"`
	Unchanged bool      `json:"unchanged,omitempty"` // the file asks for what runs already
	// KeysInForce says that the file was refused and only its keys came into force; of a dry run,
	// that they would. If it is false, nothing of a refused file came into force, or its keys did
	// not change.
	KeysInForce bool             `json:"keys_in_force,omitempty"`
	Version     uint64           `json:"version"` // of the running configuration, afterwards
	Changes     []string         `json:"changes,omitempty"`
	Capacity    []CapacityChange `json:"capacity,omitempty"` // models whose slots or upstreams change
	Restart     []string         `json:"needs_restart,omitempty"`
	Problems    []string         `json:"problems,omitempty"`
	Seconds     float64          `json:"seconds"`
}

// Page returns what the status page shows of r; nil when there was no reload.
func (r *ReloadResult) Page() *status.Reload {
	if r == nil {
		return nil
	}
	p := &status.Reload{
		At: r.At, Source: r.Source, OK: r.OK, Unchanged: r.Unchanged, KeysInForce: r.KeysInForce, Version: r.Version,
		Changes: r.Changes, Restart: r.Restart, Problems: r.Problems, Seconds: r.Seconds,
	}
	for _, c := range r.Capacity {
		p.Capacity = append(p.Capacity, c.String())
	}
	return p
}

// reloadTimeout is how long RequestReload waits: the edge reads its files and probes new upstreams.
const reloadTimeout = 30 * time.Second

// RequestReload asks a running edge to reload as q says and writes to w what changed, or would. The
// edge itself sets q.Source. edge is the base URL or the address of its admin listener; token is
// the admin token, empty if the edge has none. The error says why nothing was reloaded: every
// problem of the files, one to a line, or why the edge could not be asked.
func RequestReload(edge, token string, q ReloadRequest, w io.Writer) error {
	path := fmt.Sprintf("/-/reload?force=%t&dry_run=%t", q.Force, q.DryRun)
	body, err := ask(fasthttp.MethodPost, edge, path, token, q.Candidate, reloadTimeout)
	if err != nil {
		return err
	}
	var r ReloadResult
	if err := json.Unmarshal(body, &r); err != nil {
		return fmt.Errorf("%s gives an answer that is not a penstock's", edge)
	}
	return r.report(w)
}

// report writes what a reload changed, or returns why it was refused.
func (r *ReloadResult) report(w io.Writer) error {
	var b strings.Builder
	switch {
	case r.KeysInForce && r.DryRun:
		b.WriteString("it would be refused: its keys would be in force, its models would not\n")
	case !r.OK && r.DryRun:
		b.WriteString("it would be refused\n")
	case r.KeysInForce:
		return fmt.Errorf("keys are in force, models are not: of all the rest version %d stays in use:\n%s", r.Version, plaintext.Text(strings.Join(r.Problems, "\n")))
	case !r.OK:
		return fmt.Errorf("not reloaded, version %d stays in use:\n%s", r.Version, plaintext.Text(strings.Join(r.Problems, "\n")))
	case r.Unchanged && len(r.Restart) > 0:
		fmt.Fprintf(&b, "nothing that a reload can change: version %d stays in use\n", r.Version)
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
