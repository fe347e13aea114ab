package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"
)

// maxPods is the maximum number of pods per upstream.
const maxPods = 2000

// Limits of the API server's responses.
const (
	podsPerPage   = 100
	maxPages      = maxPods/podsPerPage + 1
	maxEventBytes = 4 << 20 // etcd stores no object above 1.5 MiB

	maxEventsPerSecond = 500
)

// The server ends a watch after a random time between minWatchSeconds and minWatchSeconds+watchSecondsSpread
// seconds. If it does not, the edge aborts the watch after another watchAbortGrace.
const (
	minWatchSeconds, watchSecondsSpread = 290, 300
	watchAbortGrace                     = 30 * time.Second
)

// Limits of the pause between a watch and the next list.
const (
	initialRelistPause = 200 * time.Millisecond
	maxRelistPause     = 10 * time.Second
	steadyWatchTime    = 5 * time.Second // a watch that lasts this long shows that the server is healthy
)

// watchedCollection defines what to list and watch, and stores the results.
type watchedCollection interface {
	// listRequest returns the path and the selectors of the list.
	listRequest() (path string, query url.Values, err error)
	// replaceAll stores a complete list.
	replaceAll(items []json.RawMessage) error
	// applyEvent stores one event: ADDED, MODIFIED or DELETED.
	applyEvent(event string, object json.RawMessage) error
}

// reflector lists and watches one collection.
type reflector struct {
	name    fmt.Stringer // describes the collection in the log
	account *apiAccess
	log     *zap.Logger
	relist  chan struct{} // requests a new list immediately

	mu             sync.Mutex
	lastContact    time.Time          // time of the last useful response, or of the start
	failureText    string             // why the watch fails; empty while it works
	failedSessions uint64             // number of failed sessions
	cancelSession  context.CancelFunc // cancels the session; nil until the first session
}

func newReflector(name fmt.Stringer, a *apiAccess, log *zap.Logger) *reflector {
	return &reflector{name: name, account: a, log: log, relist: make(chan struct{}, 1), lastContact: time.Now()}
}

// run lists and watches until ctx is done.
func (f *reflector) run(ctx context.Context, c watchedCollection) {
	for pause := initialRelistPause; ctx.Err() == nil; {
		session, end := context.WithCancel(ctx)
		f.mu.Lock()
		f.cancelSession = end
		f.mu.Unlock()
		began := time.Now()
		f.recordEnd(f.runSession(session, c))
		end()
		if time.Since(began) > steadyWatchTime {
			pause = initialRelistPause
		}
		wait := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case <-ctx.Done():
		case <-f.relist:
		case <-wait.C:
			pause = min(2*pause, maxRelistPause)
		}
		wait.Stop()
	}
}

// restart ends the current session and starts a new session immediately.
func (f *reflector) restart() {
	f.mu.Lock()
	if f.cancelSession != nil {
		f.cancelSession()
	}
	f.mu.Unlock()
	select {
	case f.relist <- struct{}{}:
	default:
	}
}

// recordContact records a useful response from the API server.
func (f *reflector) recordContact() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lastContact, f.failureText = time.Now(), ""
}

// recordEnd records the end of a session. It logs err if it differs from the previous error.
func (f *reflector) recordEnd(err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		return
	}
	f.mu.Lock()
	before := f.failureText
	f.failureText = err.Error()
	f.failedSessions++
	f.mu.Unlock()
	if before != err.Error() {
		f.log.Warn("Kubernetes cannot be watched: known pods, if any, stay in use",
			zap.Stringer("source", f.name), zap.Error(err))
	}
}

// failureState returns the reason why the watch fails, the time of the last useful response, and the
// number of failed sessions.
func (f *reflector) failureState() (trouble string, since time.Time, failed uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failureText, f.lastContact, f.failedSessions
}

// runSession reads one list and watches for changes. It returns the error that ended the watch, or
// nil if the server ended the watch at its time limit.
func (f *reflector) runSession(ctx context.Context, c watchedCollection) error {
	api, err := f.account.openClient()
	if err != nil {
		return err
	}
	defer api.close()
	version, err := f.listAll(ctx, api, c)
	if err != nil {
		return err
	}
	return f.watch(ctx, api, c, version)
}

// listAll reads all pages, stores them as one list and returns the list's version.
func (f *reflector) listAll(ctx context.Context, api *apiClient, c watchedCollection) (version string, err error) {
	path, query, err := c.listRequest()
	if err != nil {
		return "", err
	}
	query.Set("limit", strconv.Itoa(podsPerPage))
	var items []json.RawMessage
	for page := 0; ; page++ {
		if page == maxPages {
			return "", errTooMany
		}
		var l struct {
			Metadata struct{ ResourceVersion, Continue string }
			Items    []json.RawMessage
		}
		if err := getJSON(ctx, api, path+"?"+query.Encode(), &l); err != nil {
			return "", err
		}
		items = append(items, l.Items...)
		if l.Metadata.Continue == "" {
			if l.Metadata.ResourceVersion == "" {
				return "", errors.New("the API server's list has no version")
			}
			if err := c.replaceAll(items); err != nil {
				return "", err
			}
			f.recordContact()
			return l.Metadata.ResourceVersion, nil
		}
		query.Set("continue", l.Metadata.Continue)
	}
}

func getJSON(ctx context.Context, api *apiClient, path string, into any) error {
	b, err := api.get(ctx, path, time.Now().Add(pageTimeout))
	if err != nil {
		return err
	}
	defer b.close()
	text, err := io.ReadAll(b)
	if err == nil && json.Unmarshal(text, into) != nil {
		err = errNotAPI
	}
	return err
}

var (
	errNotAPI  = errors.New("the server that answers is not a Kubernetes API server")
	errTooMany = fmt.Errorf("more than %d pods: narrow the selector", maxPods)
)

// watch applies events until the watch ends.
func (f *reflector) watch(ctx context.Context, api *apiClient, c watchedCollection, version string) error {
	path, query, err := c.listRequest()
	if err != nil {
		return err
	}
	seconds := minWatchSeconds + rand.IntN(watchSecondsSpread)
	query.Set("watch", "1")
	query.Set("allowWatchBookmarks", "true")
	query.Set("resourceVersion", version)
	query.Set("timeoutSeconds", strconv.Itoa(seconds))
	b, err := api.get(ctx, path+"?"+query.Encode(), time.Now().Add(time.Duration(seconds)*time.Second+watchAbortGrace))
	if err != nil {
		return err
	}
	defer b.close()
	events, began, taken := json.NewDecoder(b), time.Now(), 0
	for {
		var e struct {
			Type   string
			Object json.RawMessage
		}
		b.bytesLeft = maxEventBytes
		if err := events.Decode(&e); errors.Is(err, io.EOF) {
			return nil
		} else if syntax, ok := errors.AsType[*json.SyntaxError](err); ok && syntax != nil {
			return errNotAPI
		} else if err != nil {
			return err
		}
		if err := applyWatchEvent(c, e.Type, e.Object); err != nil {
			return err
		}
		f.recordContact()
		if taken++; taken == maxEventsPerSecond {
			sleep(ctx, time.Second-time.Since(began))
			began, taken = time.Now(), 0
		}
	}
}

func applyWatchEvent(c watchedCollection, event string, object json.RawMessage) error {
	switch event {
	case "ADDED", "MODIFIED", "DELETED":
		return c.applyEvent(event, object)
	case "BOOKMARK":
		return nil
	case "ERROR":
		var status struct{ Code int }
		if json.Unmarshal(object, &status) != nil || status.Code == 0 {
			return errNotAPI
		}
		return statusError(status.Code)
	}
	return errNotAPI
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(max(0, d))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
