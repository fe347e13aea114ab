package admin

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
	"go.uber.org/zap"

	"penstock/proxy/front/listen"
)

// These headers tell a command which process has responded if more than one process listens on the
// port.
const (
	processNameHeader = "X-Penstock-Process"
	// processCountHeader is absent if only one process listens.
	processCountHeader = "X-Penstock-Processes"
)

// maxHandoverTime is how long two processes may share the admin port before the edge warns about
// it. A new edge that replaces an old edge starts in less time.
const maxHandoverTime = time.Minute

// portWatch detects other processes that listen on the admin port (--share-port). In this case, a
// reload or a drain reaches only one of the processes. It is safe for concurrent use.
type portWatch struct {
	countOthers func() int // counts other listeners on the port; nil if the port is not shared
	log         *zap.Logger
	mu          sync.Mutex
	sharedSince time.Time // when other listeners appeared; zero if there are none
	warned      bool      // whether the log already says that the other listeners stay
}

func newPortWatch(o *Options) *portWatch {
	w := &portWatch{log: o.Log}
	if o.SharedPort {
		w.countOthers = func() int { return listen.CountOtherListeners(o.Listener.Listener) }
	}
	return w
}

// countOtherProcesses counts the other processes on the port, and logs changes. stay is true if the
// other processes have been listening for longer than maxHandoverTime.
func (w *portWatch) countOtherProcesses(now time.Time) (others int, stay bool) {
	if w.countOthers == nil {
		return 0, false
	}
	others = w.countOthers()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case others == 0 && w.sharedSince.IsZero():
	case others == 0:
		w.sharedSince, w.warned = time.Time{}, false
		w.log.Info("this process has the admin port to itself again")
	case w.sharedSince.IsZero():
		w.sharedSince = now
		w.log.Info("another process also listens on the admin port (--share-port): either of them answers there",
			zap.Int("others", others))
	case now.Sub(w.sharedSince) >= maxHandoverTime && !w.warned:
		w.warned = true
		w.log.Warn("another process has shared the admin port for a minute: reloads, drains, /status and /metrics reach one of them at random",
			zap.Int("others", others),
			zap.String("remedy", "end the process that is being replaced, or give each edge its own admin.listen"))
	}
	return others, w.warned
}

// processName returns the process id and the start time in Unix seconds, because process ids are
// reused.
func processName(started time.Time) string {
	return fmt.Sprintf("%d-%d", os.Getpid(), started.Unix())
}

func (s *Server) setProcessHeaders(ctx *fasthttp.RequestCtx) {
	ctx.Response.Header.Set(processNameHeader, processName(s.opts.Started))
	if others, _ := s.sharedPort.countOtherProcesses(time.Now()); others > 0 {
		ctx.Response.Header.Set(processCountHeader, strconv.Itoa(1+others))
	}
}

func sharedPortWarning(h *fasthttp.ResponseHeader) string {
	n, err := strconv.Atoi(string(h.Peek(processCountHeader)))
	if err != nil || n < 2 {
		return ""
	}
	return fmt.Sprintf("%d processes listen on this admin port: only process %.40q has done this. Give each edge its own admin.listen, or end the one that is being replaced",
		n, h.Peek(processNameHeader))
}

// printWarning writes a note as the last line of a command's output, unless the note is empty.
func printWarning(note string, out io.Writer) {
	if note != "" {
		fmt.Fprintln(out, "warning: "+note)
	}
}
