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

// Headers that tell a command which of several processes has answered.
const (
	headerProcess = "X-Penstock-Process"
	// the number of processes that listen on the port; absent if there is only one
	headerProcesses = "X-Penstock-Processes"
)

// takeOver is how long two processes may share the admin port before the edge reports a mistake. A
// new edge needs less time to start while the old edge is running.
const takeOver = time.Minute

// portWatch notices other processes that listen on the admin port (--share-port). The kernel
// distributes connections among them, so a reload or a drain reaches only one process. portWatch is
// safe for concurrent use.
type portWatch struct {
	count func() int // counts other listeners on the port; nil if it is not shared
	log   *zap.Logger
	mu    sync.Mutex
	since time.Time // when other listeners appeared; zero: there are none
	said  bool      // a log line has reported that they stay
}

func newPortWatch(o *Options) *portWatch {
	w := &portWatch{log: o.Log}
	if o.SharedPort {
		w.count = func() int { return listen.OtherListeners(o.Listener.Listener) }
	}
	return w
}

// look returns how many other processes listen on the port, and whether they have done so for
// longer than takeOver. It logs changes.
func (w *portWatch) look(now time.Time) (others int, stay bool) {
	if w.count == nil {
		return 0, false
	}
	others = w.count()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case others == 0 && w.since.IsZero():
	case others == 0:
		w.since, w.said = time.Time{}, false
		w.log.Info("this process has the admin port to itself again")
	case w.since.IsZero():
		w.since = now
		w.log.Info("another process also listens on the admin port (--share-port): either of them answers there",
			zap.Int("others", others))
	case now.Sub(w.since) >= takeOver && !w.said:
		w.said = true
		w.log.Warn("another process has shared the admin port for a minute: reloads, drains, /status and /metrics reach one of them at random",
			zap.Int("others", others),
			zap.String("remedy", "end the process that is being replaced, or give each edge its own admin.listen"))
	}
	return others, w.said
}

// processName returns the name of a process in answers: the process number and the start time in
// seconds since 1970. The time is included because process numbers are reused.
func processName(started time.Time) string {
	return fmt.Sprintf("%d-%d", os.Getpid(), started.Unix())
}

// nameProcess sets the header that names the process.
func (s *Server) nameProcess(ctx *fasthttp.RequestCtx) {
	ctx.Response.Header.Set(headerProcess, processName(s.opts.Started))
	if others, _ := s.port.look(time.Now()); others > 0 {
		ctx.Response.Header.Set(headerProcesses, strconv.Itoa(1+others))
	}
}

// oneOfSeveral returns a note that names the process that answered a command; or "" if only one
// process listens.
func oneOfSeveral(h *fasthttp.ResponseHeader) string {
	n, err := strconv.Atoi(string(h.Peek(headerProcesses)))
	if err != nil || n < 2 {
		return ""
	}
	return fmt.Sprintf("%d processes listen on this admin port: only process %.40q has done this. Give each edge its own admin.listen, or end the one that is being replaced",
		n, h.Peek(headerProcess))
}

// warnOf writes a note that is not empty as the last line of a command's output.
func warnOf(note string, out io.Writer) {
	if note != "" {
		fmt.Fprintln(out, "warning: "+note)
	}
}
