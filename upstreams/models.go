package upstreams

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"penstock/config"
)

// ModelInfo is what an engine says about one of its models. A number that it does not report is 0.
type ModelInfo struct {
	ID          string   `json:"id"`
	Aliases     []string `json:"aliases,omitempty"`
	Context     int      `json:"context,omitempty"` // tokens of prompt and answer together
	Vision      bool     `json:"vision"`            // takes images
	VisionKnown bool     `json:"vision_known"`
	Kind        string   `json:"kind,omitempty"` // of the catalog's, e.g. audio-speech; empty: chat, or not reported
	Loaded      bool     `json:"loaded"`
	LoadedKnown bool     `json:"loaded_known"`
}

// modelList is one reading of an engine's models. It never changes.
type modelList struct {
	infos  []ModelInfo
	byName map[string]int  // ids and aliases
	ever   map[string]bool // every name that this or an earlier list had
	at     time.Time
}

// namesKept bounds what is remembered of earlier lists.
const namesKept = 10_000

func newModelList(infos []ModelInfo, before *modelList, at time.Time) *modelList {
	l := &modelList{infos: infos, byName: make(map[string]int, len(infos)), ever: map[string]bool{}, at: at}
	if before != nil && len(before.ever) < namesKept {
		maps.Copy(l.ever, before.ever)
	}
	for i := range infos {
		for _, name := range append([]string{infos[i].ID}, infos[i].Aliases...) {
			if _, taken := l.byName[name]; !taken && name != "" {
				l.byName[name] = i
				l.ever[name] = true
			}
		}
	}
	return l
}

// find looks a served name up as the engine would.
func (l *modelList) find(p *Profile, served string) (*ModelInfo, bool) {
	i, ok := l.byName[served]
	if !ok && p.spec.ImplicitTag != "" && !strings.Contains(served, ":") {
		i, ok = l.byName[served+p.spec.ImplicitTag]
	}
	if !ok && p.spec.Names == config.NamesIgnored && len(l.infos) > 0 {
		i, ok = 0, true
	}
	if !ok {
		return nil, false
	}
	return &l.infos[i], true
}

// lists reports whether the engine can serve the name, going by this list.
func (l *modelList) lists(p *Profile, served string) bool {
	switch m, ok := l.find(p, served); p.spec.Names {
	case config.NamesIgnored:
		return true
	case config.NamesOpen:
		return ok || !l.ever[served]
	default:
		return ok && (!m.LoadedKnown || m.Loaded || p.LoadsOnDemand())
	}
}

// ServedModel is one served name at one upstream. The upstream keeps it up to date, so that a pick
// reads one atomic where Serves looks the name up. It lives as long as the upstream.
type ServedModel struct{ unavailable atomic.Bool }

// Available is what Serves returns for the name. Any goroutine may call it.
func (m *ServedModel) Available() bool { return !m.unavailable.Load() }

// ServedModel returns the entry of a served name, always the same one for the same name. The caller
// passes configured names only, so the map is bounded.
func (u *Upstream) ServedModel(served string) *ServedModel {
	u.mu.Lock()
	defer u.mu.Unlock()
	m := u.servedModels[served]
	if m == nil {
		m = new(ServedModel)
		m.unavailable.Store(!u.Serves(served))
		u.servedModels[served] = m
	}
	return m
}

// renewServed brings every ServedModel up to date after a change of what Serves looks at. It logs
// each model that left its route or came back to it. The caller holds mu.
func (u *Upstream) renewServed() {
	expected := u.settings.Load().expected
	for served, m := range u.servedModels {
		unavailable := !u.Serves(served)
		if m.unavailable.Swap(unavailable) == unavailable {
			continue
		}
		u.set.o.OnRoom(u)
		switch {
		case !slices.Contains(expected, served):
		case unavailable:
			u.log.Warn("upstream does not serve a model now", zap.String("upstream", u.label), zap.String("served", served), zap.String("cause", u.notServedReason(served)))
		default:
			u.log.Info("upstream serves the model again", zap.String("upstream", u.label), zap.String("served", served))
		}
	}
}

// Serves reports whether the upstream has the model now. It is false only when the engine's list
// lacks the name, where that list means something, or when the engine answered 404 for it and no
// list has had it since. It does not allocate.
func (u *Upstream) Serves(served string) bool {
	if u.isMissing(served) {
		return false
	}
	list := u.models.Load()
	return list == nil || list.lists(u.engine.Load(), served)
}

// Models returns what the engine listed last, nil when it lists nothing. The slice is shared and
// must not be written.
func (u *Upstream) Models() []ModelInfo {
	if list := u.models.Load(); list != nil {
		return list.infos
	}
	return nil
}

// Model returns what the engine says about a served name, and false when it says nothing.
func (u *Upstream) Model(served string) (ModelInfo, bool) {
	if list := u.models.Load(); list != nil {
		if m, ok := list.find(u.engine.Load(), served); ok {
			return *m, true
		}
	}
	return ModelInfo{}, false
}

// MaxContext returns the greatest context in tokens that the engine reports for a served name, 0
// when it does not.
func (u *Upstream) MaxContext(served string) int {
	m, _ := u.Model(served)
	return m.Context
}

// addModels reads one page about models into infos. The first page makes the list; later ones fill
// in what is missing of names that are listed.
func addModels(infos []ModelInfo, source *config.EngineModel, page any, makes bool) []ModelInfo {
	index := make(map[string]int, len(infos))
	for i := range infos {
		index[infos[i].ID] = i
	}
	visit := func(element any) {
		m := readModel(source, element)
		if m.ID == "" || len(infos) >= namesKept {
			return
		}
		if i, ok := index[m.ID]; ok {
			infos[i].fill(&m)
		} else if makes {
			index[m.ID] = len(infos)
			infos = append(infos, m)
		}
	}
	if source.List == "" {
		visit(page)
	} else {
		eachField(page, source.List+".*", visit)
	}
	return infos
}

func readModel(source *config.EngineModel, element any) ModelInfo {
	m := ModelInfo{ID: fieldText(element, source.ID)}
	if source.Aliases != "" {
		eachField(element, source.Aliases+".*", func(v any) {
			if s, ok := v.(string); ok && s != m.ID {
				m.Aliases = append(m.Aliases, s)
			}
		})
	}
	context, _ := firstField(element, source.Context, sumField)
	m.Context = clampCount(context)
	m.Vision, m.VisionKnown = fieldSays(element, source.Vision, "image", "vision", "vlm")
	m.Kind = taskKinds[fieldText(element, source.Kind)]
	if source.Loaded == source.ID && source.Loaded != "" {
		m.Loaded, m.LoadedKnown = true, true
	} else {
		m.Loaded, m.LoadedKnown = fieldSays(element, source.Loaded, "loaded")
	}
	return m
}

func (m *ModelInfo) fill(more *ModelInfo) {
	if m.Context == 0 {
		m.Context = more.Context
	}
	if !m.VisionKnown {
		m.Vision, m.VisionKnown = more.Vision, more.VisionKnown
	}
	if m.Kind == "" {
		m.Kind = more.Kind
	}
	if !m.LoadedKnown {
		m.Loaded, m.LoadedKnown = more.Loaded, more.LoadedKnown
	}
}
