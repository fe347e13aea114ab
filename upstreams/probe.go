package upstreams

import (
	"bytes"
	"cmp"
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"penstock/config"
	"penstock/upstreams/engine"
	"penstock/upstreams/http1"
	"penstock/upstreams/wake"
)

const (
	// modelsEvery is the number of probes after which the models and the capacity are read again.
	modelsEvery = 5
	// listFailuresMax is the number of readings in a row that may fail before the last list is
	// dropped as stale.
	listFailuresMax = 3
	// kickPause is the minimum time between a probe and the next probe that a failed call requests.
	kickPause = 100 * time.Millisecond
	// confirmPause is the pause after a first bad probe, and returnPause the pause after a first
	// good probe.
	confirmPause = time.Second
	returnPause  = 500 * time.Millisecond
	// backoffMax is the maximum pause between probes of an engine that is down. The pause doubles
	// from returnPause to twice the interval. It is kept short, because a probe costs little and an
	// engine that has returned gets no traffic until the next probe.
	backoffMax = 10 * time.Second
	// probeTimeout applies if neither config nor profile sets one.
	probeTimeout = time.Second
)

// probeSettings holds the operator's settings for an upstream's probes.
type probeSettings struct {
	path       string // empty: the profile's
	interval   time.Duration
	timeout    time.Duration // 0: the profile's
	fall, rise int
}

// The configuration's defaults.
const (
	defaultInterval = 2 * time.Second
	defaultFall     = 3
	defaultRise     = 2
)

func probeSettingsOf(p *config.Probe) probeSettings {
	return probeSettings{
		path: p.Path, timeout: p.Timeout.D(), interval: cmp.Or(p.Interval.D(), defaultInterval),
		fall: cmp.Or(p.Fall, defaultFall), rise: cmp.Or(p.Rise, defaultRise),
	}
}

// prober watches one upstream from one goroutine: it finds out whether the engine is alive, which
// models it has and how busy it is.
type prober struct {
	up  *Upstream
	get http1.GetPage
	// count reads the counters, in parallel with the probes.
	count http1.GetPage
	// generate sends a generation probe; nil: no generation probes.
	generate engine.Generate
	refresh  func() // drops idle connections: only a new one shows that the engine still accepts
	rand     func() float64
	kicks    chan struct{}
	ctx      context.Context // ends with the prober; generation probes use it, too
	wakes    sync.WaitGroup
	stop     context.CancelFunc
	done     chan struct{}

	ticks        int
	engine       string // the configured engine to which known refers
	known        bool   // the engine has been recognised since it last came up
	listFailures int
	listsDue     bool
	source       int    // index of the last load source that answered
	reads        uint64 // answer reads at the last verdict
	backoff      time.Duration
	rest         rest
}

func newProber(u *Upstream, get http1.GetPage, refresh func()) *prober {
	return &prober{
		up: u, get: get, count: get, refresh: refresh, rand: rand.Float64, listsDue: true,
		kicks: make(chan struct{}, 1), done: make(chan struct{}),
	}
}

// start starts probing at once. The prober's goroutine ends soon after stop, and finally calls
// last.
func (p *prober) start(last func()) {
	ctx, cancel := context.WithCancel(context.Background())
	p.ctx, p.stop = ctx, cancel
	go p.up.hooks.guard.Once(guardProbe, func() {
		defer close(p.done)
		defer p.wakes.Wait()
		defer last()
		looks := make(chan struct{})
		defer func() { <-looks }()
		go p.up.hooks.guard.Once(guardStall, func() {
			defer close(looks)
			p.up.hooks.guard.Loop(ctx.Done(), guardStall, func() { p.look(ctx) })
		})
		p.up.hooks.guard.Loop(ctx.Done(), guardProbe, func() { p.run(ctx) })
	})
}

// kick asks for a probe now. It never blocks, and several pending kicks count as one.
func (p *prober) kick() {
	select {
	case p.kicks <- struct{}{}:
		p.due(kickPause)
	default:
	}
}

// due records when the next probe is due.
func (p *prober) due(in time.Duration) { p.up.probing.due.Store(ticks(time.Now().Add(in))) }

func (p *prober) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	for {
		if p.up.Mode() != ModeMaintenance {
			p.tick(ctx)
		}
		ended := time.Now()
		pause := p.pause()
		p.due(pause)
		timer.Reset(pause)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-p.kicks:
			pause = kickPause - time.Since(ended)
			p.due(pause)
			timer.Reset(pause)
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
		}
	}
}

// pause returns the time until the next probe: the interval, varied by ten percent. The pause is
// shorter in case of doubt, and longer while the upstream is down or idle (rest.go).
func (p *prober) pause() time.Duration {
	interval := p.interval(time.Now())
	machine := p.up.Health.read().machine
	state, row := machine.state, machine.bad
	pause := interval
	switch {
	case state == StateBusy, state == StateUp && (row > 0 || p.up.Models.view.Load().missing.lately(time.Now())):
		pause = min(interval, confirmPause)
	case state == StateDown && (row > 0 || p.up.Health.Wake.Starting(time.Now())):
		pause = min(interval, returnPause)
	case state == StateDown:
		p.backoff = min(max(p.backoff*2, returnPause), 2*interval, backoffMax)
		pause = p.backoff
	}
	if state == StateUp {
		p.backoff = 0
	}
	p.rest.resting.Store(pause > p.up.settings.Load().probe.interval)
	return time.Duration(float64(pause) * (0.9 + 0.2*p.rand()))
}

// tick runs one probe. It reads models and capacity before it books the verdict, so that an
// upstream is up only once its models are known.
func (p *prober) tick(ctx context.Context) {
	u, s := p.up, p.up.settings.Load()
	u.hooks.guard.Point(guardProbe)
	p.refresh()
	begun := time.Now()
	p.noteRest(begun)
	if s.spec.Engine != p.engine {
		p.engine, p.known, p.listsDue = s.spec.Engine, false, true
	}
	var err error
	if engine.IsAuto(s.spec.Engine) { // each kind of engine has its own health page
		err = p.recognise(ctx, s)
	}
	path, timeout, alive := p.healthPage(s)
	var health http1.Page
	if err == nil {
		health, err = p.get(ctx, path, p.patience(timeout))
	}
	good := err == nil && alive(health.Status)
	if good && u.Health.Wake.Configured() {
		health.Body = bytes.Clone(health.Body)
		if r := p.reader(timeout); r.Asleep(ctx) {
			good, err = false, errAsleep
			u.Health.distrust() // the engine itself reports the failure
		}
	}
	if good && !engine.IsAuto(s.spec.Engine) && !p.known {
		health.Body = bytes.Clone(health.Body)
		_ = p.recognise(ctx, s) // the named profile holds until a variant is detected
	}
	if ctx.Err() != nil {
		return
	}
	if good {
		// While a model that a route expects here is missing, every probe looks for it. If the list
		// decides what is published, every probe reads it.
		missing := len(u.Models.unserved(s.expected)) > 0
		if p.listsDue || missing || s.spec.Lists || p.ticks%modelsEvery == 0 {
			p.readModels(ctx, path, health, timeout, begun)
			p.readCapacity(ctx, timeout)
		}
		p.readLoad(ctx, timeout)
		p.ticks++
	}
	if ctx.Err() == nil {
		p.book(good, health.Status, err, time.Since(begun))
		u.probing.verdict()
	}
}

// errAsleep fails the probe of an engine that reports sleep mode.
var errAsleep = &http1.Failure{Kind: http1.Unreachable, Reason: string(CauseAsleep)}

// wake sends the request that wakes the engine. If the request fails, wake lets waiting calls
// look again.
func (p *prober) wake(run wake.Run) {
	u, last := p.up, time.NewTimer(run.Wait+run.Patience)
	defer last.Stop()
	defer u.hooks.room()
	u.hooks.guard.Point(guardWake)
	first := time.NewTimer(run.Wait)
	defer first.Stop()
	select {
	case <-p.ctx.Done(): // a reload may have replaced this prober
		u.Health.Wake.Cancel()
		return
	case <-run.Over: // the engine is back by itself
		return
	case <-first.C:
	}
	status, err := engine.Wake(p.ctx, run.Spec, string(u.identity.id), run.Patience)
	if err != nil || status/100 != 2 {
		u.hooks.log.Warn("upstream's engine could not be woken",
			zap.Int("status", status), zap.String("reason", engine.ReasonOf(err)))
		u.series.wakes[wakeFailed].Inc()
		u.Health.Wake.Failed(time.Now())
		return
	}
	u.hooks.log.Info("upstream's engine was asked to wake")
	u.series.wakes[wakeAsked].Inc()
	p.kick()
	select {
	case <-p.ctx.Done():
	case <-run.Over:
	case <-last.C:
	}
}

// healthPage returns the page to probe and the statuses that are good. A page configured by the
// operator must answer 2xx.
func (p *prober) healthPage(s *settings) (path string, timeout time.Duration, alive func(int) bool) {
	profile := p.up.engine.Load()
	health := profile.Health()
	path, timeout, alive = health.Path, health.Timeout, health.Good
	if s.probe.path != "" {
		path, alive = s.probe.path, func(status int) bool { return status/100 == 2 }
	}
	if s.probe.timeout > 0 {
		timeout = s.probe.timeout
	}
	if timeout <= 0 {
		timeout = probeTimeout
	}
	return path, timeout, alive
}

// patience returns the time to wait for the health page, given the usual limit.
func (p *prober) patience(timeout time.Duration) time.Duration {
	if m := p.up.Health.read().machine; m.state == StateBusy && m.bad == 0 {
		return max(timeout, busyPatience)
	}
	return timeout
}

// book passes the verdict to the health machine.
func (p *prober) book(good bool, status int, err error, took time.Duration) {
	reads := p.up.client.answers.Looks()
	flows := reads != p.reads
	p.reads = reads
	m := p.up.Health.read().machine
	// A stopped process also leaves a generation probe unanswered, so an unanswered generation probe
	// alone does not show that a busy engine works.
	working := hasCalls(p.up) && (m.state != StateBusy || !p.up.generations.alone())
	r := probeResult{good: good, flows: flows, working: working, status: status, err: err, took: took}
	// An engine with a full accept queue leaves connects unanswered, like a vanished host. After
	// a few more probes the open connections tell the two apart.
	if m.state == StateBusy && !good && m.bad+1 >= max(m.fall, defaultFall) {
		r.lives = p.up.client.hosts.EndVanished() == 0
	}
	serves := p.up.Health.probeEnded(r)
	if serves && m.state == StateDown && !p.up.Progress.Counts() {
		p.up.Cache.Empty() // a restart is the usual cause, and no counters show it here
	}
	if !good && !serves { // the engine may return as another one, or report more once it has loaded
		p.known, p.listsDue = false, true
		if n := p.up.client.hosts.EndVanished(); n > 0 {
			p.up.hooks.log.Warn("upstream's host vanished", zap.Int("connections_ended", n))
		}
	}
}

// recogniseMax is the time limit of a whole recognition: an engine may not answer unknown paths at
// all.
const recogniseMax = 5 * time.Second

// recognise detects the engine if the operator names none or the named profile has variants. An
// error means that the engine does not answer.
func (p *prober) recognise(ctx context.Context, s *settings) error {
	u := p.up
	if p.known {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, recogniseMax)
	defer cancel()
	_, timeout, _ := p.healthPage(s)
	profile, err := u.set.profiles.Load().Recognise(ctx, p.get, timeout, s.spec.Engine)
	if err != nil {
		return err
	}
	if profile == nil { // there is no choice
		p.known = true
		return nil
	}
	u.recognition.Lock()
	defer u.recognition.Unlock()
	if u.settings.Load() != s { // a reload intervened: the next probe detects the engine
		return nil
	}
	p.known = true
	if u.engine.Swap(profile) != profile {
		u.hooks.log.Info("upstream's engine recognised", zap.String("engine", profile.Name()))
		u.slots.recognise(profile)
		u.Models.recognise(profile)
		p.source, p.listsDue = 0, true
	}
	return nil
}

// readModels reads the model list. health is the page just read, which may be the list itself.
func (p *prober) readModels(
	ctx context.Context, healthPath string, health http1.Page, timeout time.Duration, begun time.Time,
) {
	u := p.up
	r := p.reader(timeout)
	page := r.Profile.ModelsPage()
	p.listsDue = false
	if page == "" {
		u.Models.setList(nil, begun)
		return
	}
	var known *http1.Page
	if healthPath == page {
		known = &health
	}
	infos, err := r.Models(ctx, known)
	if err != nil {
		if p.listFailures++; p.listFailures >= listFailuresMax {
			u.Models.setList(nil, begun)
		}
		return
	}
	p.listFailures = 0
	u.Models.setList(engine.NewModelList(infos, u.Models.view.Load().list), begun)
}

// reader returns a Reader for the engine that the upstream is assumed to run.
func (p *prober) reader(timeout time.Duration) engine.Reader {
	return engine.Reader{Get: p.get, Profile: p.up.engine.Load(), Timeout: timeout}
}

// readCapacity reads the number of requests that the engine runs at once, and the number of tokens
// that their prompts may have. Each number is kept until a new one is read.
func (p *prober) readCapacity(ctx context.Context, timeout time.Duration) {
	r := p.reader(timeout)
	if n, cache, ok := r.Slots(ctx); ok {
		p.up.slots.setReported(n)
		if cache > 0 {
			p.up.Cache.SetTokens(cache)
		}
	}
	if p.up.settings.Load().spec.Residents > 0 {
		if n, ok := r.Residents(ctx); ok {
			p.up.Models.told(n)
		}
	}
}

// readLoad scrapes the first source that answers, starting with the one that answered last time.
func (p *prober) readLoad(ctx context.Context, timeout time.Duration) {
	u, r := p.up, p.reader(timeout)
	now, before, elsewhere := time.Now(), u.slots.inFlight(), u.slots.fleet.elsewhere.Load().inFlight(PoolText, true)
	batch := u.reports.beginReport(now)
	load, at, path, ok := r.Load(ctx, p.source)
	if !ok {
		p.bookReport(nil, batch, now)
		return
	}
	p.source = at
	if load.CacheTokens > 0 {
		u.Cache.SetTokens(load.CacheTokens)
	}
	setAdapters(&u.Models, load.Adapters, now)
	if load.Counts {
		u.count(time.Now(), load.Progress)
	}
	// The engine counted its requests at some moment during the exchange. Of the edge's own counts
	// before and after it, the greater one errs toward less work of others.
	after := u.slots.inFlight()
	elsewhere = max(elsewhere, u.slots.fleet.elsewhere.Load().inFlight(PoolText, true))
	report := &Report{Load: load, OwnAtScrape: max(before, after), Elsewhere: elsewhere, At: time.Now(), Source: path}
	if load.Queue {
		u.Progress.Report(report.At, load.Running+load.Waiting, min(before, after))
	}
	p.bookReport(report, batch, report.At)
}

// bookReport stores the engine's report, which is nil if there is none.
func (p *prober) bookReport(r *Report, batch int, now time.Time) {
	u := p.up
	ghosts, places, fates := u.reports.set(r, batch, freshIntervals*p.interval(now), now)
	u.series.count(fates)
	u.slots.setSeen(ghosts, places)
}

// freshIntervals is the number of probe intervals for which a report stays fresh.
const freshIntervals = 3

// probing holds the current prober of an upstream.
type probing struct {
	due   atomic.Int64  // when the next probe is due (ticks)
	first chan struct{} // closed by the first verdict
	once  sync.Once

	mu     sync.Mutex
	prober *prober // nil: not probed
}

func (p *probing) current() *prober {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.prober
}

// replace sets the prober and returns the previous one.
func (p *probing) replace(next *prober) (before *prober) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, p.prober = p.prober, next
	return before
}

// stop ends probing. done is nil if there was no prober.
func (p *probing) stop() (done <-chan struct{}) {
	if prober := p.replace(nil); prober != nil {
		prober.stop()
		return prober.done
	}
	return nil
}

// wake asks the prober to wake the engine.
func (p *probing) wake(run wake.Run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	prober := p.prober
	if prober == nil {
		return
	}
	prober.wakes.Add(1)
	go prober.up.hooks.guard.Once(guardWake, func() {
		defer prober.wakes.Done()
		prober.wake(run)
	})
}

// kick asks the prober for a probe now.
func (p *probing) kick() {
	if prober := p.current(); prober != nil {
		prober.kick()
	}
}

// verdict records the first verdict.
func (p *probing) verdict() { p.once.Do(func() { close(p.first) }) }
