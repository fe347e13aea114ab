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
	// The prober reads the models and the capacity with every probesPerModelRead-th probe.
	probesPerModelRead = 5
	// After maxListFailures consecutive failures to read the model list, the previous list is
	// discarded.
	maxListFailures = 3
	// minRequestedProbePause is the minimum interval between the last probe and a probe that was
	// requested with probeNow.
	minRequestedProbePause = 100 * time.Millisecond
	// failureConfirmPause is the pause after the first failed probe. recoveryConfirmPause is the
	// pause after the first successful probe.
	failureConfirmPause  = time.Second
	recoveryConfirmPause = 500 * time.Millisecond
	// maxBackoff is the maximum pause between probes of an engine that is down. The pause doubles
	// from recoveryConfirmPause to twice the interval. The maximum is low, because a probe costs
	// little and a recovered engine gets no calls until the next probe.
	maxBackoff = 10 * time.Second
	// probeTimeout applies if neither the configuration nor the profile sets a timeout.
	probeTimeout = time.Second
)

type probeSettings struct {
	path       string // if empty, the profile's path is used
	interval   time.Duration
	timeout    time.Duration // if 0, the profile's timeout is used
	fall, rise int
}

// Defaults of the probe configuration.
const (
	defaultProbeInterval = 2 * time.Second
	defaultFallThreshold = 3
	defaultRiseThreshold = 2
)

func newProbeSettings(p *config.Probe) probeSettings {
	return probeSettings{
		path: p.Path, timeout: p.Timeout.D(), interval: cmp.Or(p.Interval.D(), defaultProbeInterval),
		fall: cmp.Or(p.Fall, defaultFallThreshold), rise: cmp.Or(p.Rise, defaultRiseThreshold),
	}
}

// prober observes an upstream: whether the engine is alive, which models it serves and how busy it
// is. Each prober has one goroutine.
type prober struct {
	up  *Upstream
	get http1.GetPageFunc
	// getCounters reads the engine's counters, in parallel with the probes.
	getCounters http1.GetPageFunc
	// generate sends a generation probe. It is nil if generation probes are off.
	generate       engine.GenerateFunc
	closeIdleConns func() // closes idle connections, so that the next probe must connect
	rand           func() float64
	kicks          chan struct{}
	ctx            context.Context // canceled when the prober stops; also used by generation probes
	wakes          sync.WaitGroup
	stop           context.CancelFunc
	done           chan struct{}

	probeCount   int
	engine       string // the configured engine when detection was last reset
	detected     bool   // the engine was detected after it last came up
	listFailures int
	modelListDue bool
	loadSource   int    // index of the last load source that responded
	lastReads    uint64 // number of response reads at the last verdict
	backoff      time.Duration
	idle         idleTracker
}

func newProber(u *Upstream, get http1.GetPageFunc, refresh func()) *prober {
	return &prober{
		up: u, get: get, getCounters: get, closeIdleConns: refresh, rand: rand.Float64, modelListDue: true,
		kicks: make(chan struct{}, 1), done: make(chan struct{}),
	}
}

// start starts probing immediately. The prober's goroutine exits soon after stop is called. Just
// before it exits, it calls the function last.
func (p *prober) start(last func()) {
	ctx, cancel := context.WithCancel(context.Background())
	p.ctx, p.stop = ctx, cancel
	go p.up.hooks.guard.RunWithRecover(guardProbe, func() {
		defer close(p.done)
		defer p.wakes.Wait()
		defer last()
		looks := make(chan struct{})
		defer func() { <-looks }()
		go p.up.hooks.guard.RunWithRecover(guardStall, func() {
			defer close(looks)
			p.up.hooks.guard.Loop(ctx.Done(), guardStall, func() { p.watchProgress(ctx) })
		})
		p.up.hooks.guard.Loop(ctx.Done(), guardProbe, func() { p.run(ctx) })
	})
}

// probeNow requests an immediate probe. It never blocks, and merges requests that are still
// pending.
func (p *prober) probeNow() {
	select {
	case p.kicks <- struct{}{}:
		p.setNextProbe(minRequestedProbePause)
	default:
	}
}

func (p *prober) setNextProbe(in time.Duration) {
	p.up.probeControl.nextProbe.Store(momentTicks(time.Now().Add(in)))
}

func (p *prober) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	for {
		if p.up.Mode() != ModeMaintenance {
			p.probeOnce(ctx)
		}
		ended := time.Now()
		pause := p.nextPause()
		p.setNextProbe(pause)
		timer.Reset(pause)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-p.kicks:
			pause = minRequestedProbePause - time.Since(ended)
			p.setNextProbe(pause)
			timer.Reset(pause)
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
		}
	}
}

// nextPause returns the time until the next probe: the interval with a jitter of ten percent. The
// pause is shorter if the upstream's state is in doubt, and longer while the upstream is down or
// idle (idle_tracker.go).
func (p *prober) nextPause() time.Duration {
	interval := p.probeInterval(time.Now())
	machine := p.up.Health.factsSnapshot().liveness
	state, row := machine.state, machine.contradictions
	pause := interval
	switch {
	case state == StateBusy, state == StateUp && (row > 0 || p.up.Models.view.Load().missing.anyRecent(time.Now())):
		pause = min(interval, failureConfirmPause)
	case state == StateDown && (row > 0 || p.up.Health.Wake.IsStarting(time.Now())):
		pause = min(interval, recoveryConfirmPause)
	case state == StateDown:
		p.backoff = min(max(p.backoff*2, recoveryConfirmPause), 2*interval, maxBackoff)
		pause = p.backoff
	}
	if state == StateUp {
		p.backoff = 0
	}
	p.idle.probeDelayed.Store(pause > p.up.settings.Load().probe.interval)
	return time.Duration(float64(pause) * (0.9 + 0.2*p.rand()))
}

// probeOnce runs one probe. It reads the models and the capacity before it records the verdict, so
// that an upstream comes up only after its models are known.
func (p *prober) probeOnce(ctx context.Context) {
	u, s := p.up, p.up.settings.Load()
	u.hooks.guard.PanicIfInjected(guardProbe)
	p.closeIdleConns()
	begun := time.Now()
	p.updateIdleTracker(begun)
	if s.spec.Engine != p.engine {
		p.engine, p.detected, p.modelListDue = s.spec.Engine, false, true
	}
	var err error
	if engine.IsAuto(s.spec.Engine) { // each kind of engine has a different health page
		err = p.detectEngine(ctx, s)
	}
	path, timeout, alive := p.healthPage(s)
	var health http1.Page
	if err == nil {
		health, err = p.get(ctx, path, p.healthTimeout(timeout))
	}
	good := err == nil && alive(health.Status)
	if good && u.Health.Wake.IsConfigured() {
		health.Body = bytes.Clone(health.Body)
		if r := p.reader(timeout); r.IsAsleep(ctx) {
			good, err = false, errAsleep
			u.Health.markSuspect() // the engine itself has reported a failure
		}
	}
	if good && !engine.IsAuto(s.spec.Engine) && !p.detected {
		health.Body = bytes.Clone(health.Body)
		_ = p.detectEngine(ctx, s) // on error, the named profile applies
	}
	if ctx.Err() != nil {
		return
	}
	if good {
		// Every probe reads the list while an expected model is missing, or if the list determines
		// the published models.
		missing := len(u.Models.unservedNames(s.expected)) > 0
		if p.modelListDue || missing || s.spec.Lists || p.probeCount%probesPerModelRead == 0 {
			p.readModels(ctx, path, health, timeout, begun)
			p.readCapacity(ctx, timeout)
		}
		p.readLoad(ctx, timeout)
		p.probeCount++
	}
	if ctx.Err() == nil {
		p.recordVerdict(good, health.Status, err, time.Since(begun))
		u.probeControl.markFirstVerdict()
	}
}

// errAsleep is the probe error for an engine that reports sleep mode.
var errAsleep = &http1.Failure{Kind: http1.KindUnreachable, Reason: string(CauseAsleep)}

// sendWakeRequest sends the request that wakes the engine. Afterwards it wakes the waiting calls,
// so that they try other upstreams if the request has failed.
func (p *prober) sendWakeRequest(run wake.StartRequest) {
	u, last := p.up, time.NewTimer(run.Wait+run.Patience)
	defer last.Stop()
	defer u.hooks.wakeWaiting()
	u.hooks.guard.PanicIfInjected(guardWake)
	first := time.NewTimer(run.Wait)
	defer first.Stop()
	select {
	case <-p.ctx.Done(): // a reload may have replaced this prober
		u.Health.Wake.CancelStart()
		return
	case <-run.Over: // the engine has come up without the request
		return
	case <-first.C:
	}
	status, err := engine.SendWake(p.ctx, run.Spec, string(u.identity.id), run.Patience)
	if err != nil || status/100 != 2 {
		u.hooks.log.Warn("upstream's engine could not be woken",
			zap.Int("status", status), zap.String("reason", engine.FailureReason(err)))
		u.series.wakes[wakeFailedIndex].Inc()
		u.Health.Wake.RecordFailure(time.Now())
		return
	}
	u.hooks.log.Info("upstream's engine was asked to wake")
	u.series.wakes[wakeAskedIndex].Inc()
	p.probeNow()
	select {
	case <-p.ctx.Done():
	case <-run.Over:
	case <-last.C:
	}
}

// healthPage returns the path to probe and a function that reports which statuses are healthy. If
// the operator configures a path, only a 2xx response is healthy.
func (p *prober) healthPage(s *settings) (path string, timeout time.Duration, alive func(int) bool) {
	profile := p.up.engine.Load()
	health := profile.Health()
	path, timeout, alive = health.Path, health.Timeout, health.IsHealthy
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

// healthTimeout returns the timeout for the health page. It is longer than timeout if the upstream
// is busy.
func (p *prober) healthTimeout(timeout time.Duration) time.Duration {
	if m := p.up.Health.factsSnapshot().liveness; m.state == StateBusy && m.contradictions == 0 {
		return max(timeout, busyProbeTimeout)
	}
	return timeout
}

// recordVerdict reports the verdict to Health.
func (p *prober) recordVerdict(good bool, status int, err error, took time.Duration) {
	reads := p.up.client.answerWatch.ArrivalNumber()
	flows := reads != p.lastReads
	p.lastReads = reads
	m := p.up.Health.factsSnapshot().liveness
	// A stopped process does not answer a generation probe either. A generation probe that is still
	// running therefore does not show that a busy engine is working.
	working := hasCalls(p.up) && (m.state != StateBusy || !p.up.generations.isOnlyCall())
	r := probeResult{isHealthy: good, hasProgressed: flows, hasCalls: working, status: status, err: err, took: took}
	// An engine with a full accept queue does not answer connection attempts, and neither does a
	// host that has disappeared. After a few more probes, the open connections show which of these
	// is the case.
	if m.state == StateBusy && !good && m.contradictions+1 >= max(m.fall, defaultFallThreshold) {
		r.hostResponds = p.up.client.hosts.CloseConnsToLostHosts() == 0
	}
	serves := p.up.Health.recordProbe(r)
	if serves && m.state == StateDown && !p.up.Progress.HasCounters() {
		p.up.Cache.RecordEmptied() // the engine has probably restarted; there are no counters to show it
	}
	if !good && !serves { // what comes up may be a different engine, or may report more than before
		p.detected, p.modelListDue = false, true
		if n := p.up.client.hosts.CloseConnsToLostHosts(); n > 0 {
			p.up.hooks.log.Warn("upstream's host vanished", zap.Int("connections_ended", n))
		}
	}
}

// detectTimeout is the time limit for all requests of a detection, because an engine may not answer
// requests for unknown paths.
const detectTimeout = 5 * time.Second

// detectEngine detects the engine if the configuration does not name an engine, or if the named
// profile has variants. It returns an error if the engine does not respond.
func (p *prober) detectEngine(ctx context.Context, s *settings) error {
	u := p.up
	if p.detected {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, detectTimeout)
	defer cancel()
	_, timeout, _ := p.healthPage(s)
	profile, err := u.set.profiles.Load().Recognise(ctx, p.get, timeout, s.spec.Engine)
	if err != nil {
		return err
	}
	if profile == nil { // nothing to detect
		p.detected = true
		return nil
	}
	u.profileMu.Lock()
	defer u.profileMu.Unlock()
	if u.settings.Load() != s { // there was a reload, so the next probe detects the engine
		return nil
	}
	p.detected = true
	if u.engine.Swap(profile) != profile {
		u.hooks.log.Info("upstream's engine recognised", zap.String("engine", profile.Name()))
		u.slots.setProfile(profile)
		u.Models.setProfile(profile)
		p.loadSource, p.modelListDue = 0, true
	}
	return nil
}

// readModels reads the model list. health is the health page that was just read. The health page
// may itself be the list.
func (p *prober) readModels(
	ctx context.Context, healthPath string, health http1.Page, timeout time.Duration, begun time.Time,
) {
	u := p.up
	r := p.reader(timeout)
	page := r.Profile.ModelsPage()
	p.modelListDue = false
	if page == "" {
		u.Models.setList(nil, begun)
		return
	}
	var known *http1.Page
	if healthPath == page {
		known = &health
	}
	infos, err := r.ReadModels(ctx, known)
	if err != nil {
		if p.listFailures++; p.listFailures >= maxListFailures {
			u.Models.setList(nil, begun)
		}
		return
	}
	p.listFailures = 0
	u.Models.setList(engine.NewModelList(infos, u.Models.view.Load().list), begun)
}

func (p *prober) reader(timeout time.Duration) engine.PageReader {
	return engine.PageReader{Get: p.get, Profile: p.up.engine.Load(), Timeout: timeout}
}

// readCapacity reads how many requests the engine runs concurrently, and how many prompt tokens fit
// in its cache. If the read fails, the previous numbers stay.
func (p *prober) readCapacity(ctx context.Context, timeout time.Duration) {
	r := p.reader(timeout)
	if n, cache, ok := r.ReadSlots(ctx); ok {
		p.up.slots.setReported(n)
		if cache > 0 {
			p.up.Cache.SetCapacity(cache)
		}
	}
	if p.up.settings.Load().spec.Residents > 0 {
		if n, ok := r.ReadMaxResidents(ctx); ok {
			p.up.Models.setReportedResidentCount(n)
		}
	}
}

// readLoad scrapes the load from the first source that responds, starting with the source that
// responded last time.
func (p *prober) readLoad(ctx context.Context, timeout time.Duration) {
	u, r := p.up, p.reader(timeout)
	now, before, elsewhere := time.Now(), u.slots.inFlight(), u.slots.fleet.others.Load().inFlight(PoolText, true)
	batch := u.reports.beginReport(now)
	load, at, path, ok := r.ReadLoad(ctx, p.loadSource)
	if !ok {
		p.storeReport(nil, batch, now)
		return
	}
	p.loadSource = at
	if load.CacheTokens > 0 {
		u.Cache.SetCapacity(load.CacheTokens)
	}
	setAdapters(&u.Models, load.Adapters, now)
	if load.Counts {
		u.recordCounterSum(time.Now(), load.Progress)
	}
	// The engine counted its requests at some moment during the exchange. The edge takes the larger
	// of its counts before and after the exchange, to avoid overestimating the work of others.
	after := u.slots.inFlight()
	elsewhere = max(elsewhere, u.slots.fleet.others.Load().inFlight(PoolText, true))
	report := &LoadReport{EngineLoad: load, OwnAtScrape: max(before, after), Elsewhere: elsewhere, At: time.Now(), Source: path}
	if load.Queue {
		u.Progress.RecordReport(report.At, load.Running+load.Waiting, min(before, after))
	}
	p.storeReport(report, batch, report.At)
}

// storeReport stores the engine's report. r is nil if the read failed.
func (p *prober) storeReport(r *LoadReport, batch int, now time.Time) {
	u := p.up
	ghosts, places, fates := u.reports.storeReport(r, batch, reportFreshIntervals*p.probeInterval(now), now)
	u.series.countSlotFates(fates)
	u.slots.setObserved(ghosts, places)
}

// reportFreshIntervals is the number of probe intervals for which a report stays fresh.
const reportFreshIntervals = 3

type probeControl struct {
	nextProbe    atomic.Int64  // time of the next probe, in ticks
	firstVerdict chan struct{} // closed at the first verdict
	once         sync.Once

	mu     sync.Mutex
	prober *prober // nil if the upstream is not probed
}

func (p *probeControl) currentProber() *prober {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.prober
}

func (p *probeControl) replace(next *prober) (before *prober) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, p.prober = p.prober, next
	return before
}

// stop stops probing. done is nil if there was no prober.
func (p *probeControl) stop() (done <-chan struct{}) {
	if prober := p.replace(nil); prober != nil {
		prober.stop()
		return prober.done
	}
	return nil
}

// requestWake makes the prober wake the engine.
func (p *probeControl) requestWake(run wake.StartRequest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	prober := p.prober
	if prober == nil {
		return
	}
	prober.wakes.Add(1)
	go prober.up.hooks.guard.RunWithRecover(guardWake, func() {
		defer prober.wakes.Done()
		prober.sendWakeRequest(run)
	})
}

func (p *probeControl) probeNow() {
	if prober := p.currentProber(); prober != nil {
		prober.probeNow()
	}
}

func (p *probeControl) markFirstVerdict() { p.once.Do(func() { close(p.firstVerdict) }) }
