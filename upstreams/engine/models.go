package engine

import (
	"context"
	"errors"
	"maps"
	"strings"

	"penstock/config"
	"penstock/upstreams/http1"
)

// ModelInfo describes one model as reported by its engine. A number that the engine does not report
// is 0.
type ModelInfo struct {
	ID          string   `json:"id"`
	Aliases     []string `json:"aliases,omitempty"`
	Context     int      `json:"context,omitempty"` // maximum number of tokens in prompt and response
	Vision      bool     `json:"vision"`            // accepts images
	VisionKnown bool     `json:"vision_known"`
	// Kind is the model's kind in the catalog, for example audio-speech, or empty if unknown.
	Kind        string `json:"kind,omitempty"`
	Loaded      bool   `json:"loaded"`
	LoadedKnown bool   `json:"loaded_known"`
	Parent      string `json:"parent,omitempty"` // base model of an adapter
}

// ModelList is an engine's model list, as read at one time. It is immutable.
type ModelList struct {
	infos      []ModelInfo
	byName     map[string]int  // indexes in infos, by id and by alias
	everListed map[string]bool // all names in this list or earlier lists
}

// maxKeptNames is the maximum number of names kept from earlier lists.
const maxKeptNames = 10_000

// NewModelList returns a list of an engine's models. before is the previous list, or nil.
func NewModelList(infos []ModelInfo, before *ModelList) *ModelList {
	l := &ModelList{infos: infos, byName: make(map[string]int, len(infos)), everListed: map[string]bool{}}
	if before != nil && len(before.everListed) < maxKeptNames {
		maps.Copy(l.everListed, before.everListed)
	}
	for i := range infos {
		for _, name := range append([]string{infos[i].ID}, infos[i].Aliases...) {
			if _, taken := l.byName[name]; !taken && name != "" {
				l.byName[name] = i
				l.everListed[name] = true
			}
		}
	}
	return l
}

// All returns the models in the engine's order. The slice is shared. It returns nil for a nil list.
func (l *ModelList) All() []ModelInfo {
	if l == nil {
		return nil
	}
	return l.infos
}

// Find looks up a served name like the engine does. It returns false for a nil list.
func (l *ModelList) Find(p *Profile, served string) (ModelInfo, bool) {
	if i := l.indexOf(p, served); i >= 0 {
		return l.infos[i], true
	}
	return ModelInfo{}, false
}

// indexOf returns the position of a served name, or -1.
func (l *ModelList) indexOf(p *Profile, served string) int {
	if l == nil {
		return -1
	}
	i, ok := l.byName[served]
	if !ok && p.spec.ImplicitTag != "" && !strings.Contains(served, ":") {
		i, ok = l.byName[served+p.spec.ImplicitTag]
	}
	if !ok && p.spec.Names == config.ModelNamesIgnored && len(l.infos) > 0 {
		return 0
	}
	if !ok {
		return -1
	}
	return i
}

// Serves reports whether the engine serves the name, according to this list. For a nil list, it
// returns true for every name.
func (l *ModelList) Serves(p *Profile, served string) bool {
	if l == nil || p.spec.Names == config.ModelNamesIgnored {
		return true
	}
	i := l.indexOf(p, served)
	if p.spec.Names == config.ModelNamesOpen {
		return i >= 0 || !l.everListed[served]
	}
	return i >= 0 && (!l.infos[i].LoadedKnown || l.infos[i].Loaded || p.HasQuirk(config.QuirkLoadsOnDemand))
}

// Contains reports whether the list contains the name, for an engine that does not ignore names.
func (l *ModelList) Contains(p *Profile, served string) bool {
	return p.spec.Names != config.ModelNamesIgnored && l.indexOf(p, served) >= 0
}

// IsAuthoritative reports whether a model whose name is missing from the list is gone. It returns
// true if the engine lists all its models, or has listed this name before.
func (l *ModelList) IsAuthoritative(p *Profile, served string) bool {
	return l != nil && (p.spec.Names == config.ModelNamesListed || p.spec.Names != config.ModelNamesIgnored && l.everListed[served])
}

var errNoModelList = errors.New("the engine lists no models")

// ReadModels reads all pages about models. Only the first page is required; the other pages add
// details. If the first page has already been read, pass it as known.
func (r *PageReader) ReadModels(ctx context.Context, known *http1.Page) ([]ModelInfo, error) {
	var infos []ModelInfo
	for i := range r.Profile.spec.Models {
		source := &r.Profile.spec.Models[i]
		var content any
		var err error
		if i == 0 && known != nil {
			content, err = decodePage(*known)
		} else {
			content, err = r.readJSON(ctx, source.Path)
		}
		if err == nil && i == 0 && source.List != "" && !isList(content, source.List) {
			err = errNoModelList
		}
		switch {
		case err == nil:
			infos = addModels(infos, source, content, i == 0)
		case i == 0:
			return nil, err
		}
	}
	return infos, nil
}

func isList(content any, field string) bool {
	for v := range fieldValues(content, field) {
		if _, ok := v.([]any); ok {
			return true
		}
	}
	return false
}

// addModels merges one page into infos. The first page (makes is true) defines which models exist,
// and later pages only add missing details.
func addModels(infos []ModelInfo, source *config.EngineModelsPage, page any, makes bool) []ModelInfo {
	index := make(map[string]int, len(infos))
	for i := range infos {
		index[infos[i].ID] = i
	}
	list := source.List
	if list != "" {
		list += ".*"
	}
	for element := range fieldValues(page, list) {
		m := readModel(source, element)
		if m.ID == "" || len(infos) >= maxKeptNames {
			continue
		}
		if i, ok := index[m.ID]; ok {
			infos[i].fillMissing(&m)
		} else if makes {
			index[m.ID] = len(infos)
			infos = append(infos, m)
		}
	}
	return infos
}

func readModel(source *config.EngineModelsPage, element any) ModelInfo {
	m := ModelInfo{ID: fieldText(element, source.ID)}
	if source.Aliases != "" {
		for v := range fieldValues(element, source.Aliases+".*") {
			if s, ok := v.(string); ok && s != m.ID {
				m.Aliases = append(m.Aliases, s)
			}
		}
	}
	context, _ := readFirstField(element, source.Context, sumField)
	m.Context = clampCount(context)
	m.Vision, m.VisionKnown = fieldMatches(element, source.Vision, "image", "vision", "vlm")
	m.Kind = readKind(element, source.Kind)
	m.Parent = fieldText(element, source.Parent)
	if source.Loaded == source.ID && source.Loaded != "" {
		m.Loaded, m.LoadedKnown = true, true
	} else {
		m.Loaded, m.LoadedKnown = fieldMatches(element, source.Loaded, "loaded")
	}
	return m
}

// readKind reads a model's kind. The kind is a string, or the only key of an object such as
// {"reranker": {"id2label": …}} from Text Embeddings Inference.
func readKind(element any, field string) string {
	if word := fieldText(element, field); word != "" || field == "" {
		return taskKinds[word]
	}
	for v := range fieldValues(element, field) {
		if object, ok := v.(map[string]any); ok && len(object) == 1 {
			for name := range object {
				return taskKinds[name]
			}
		}
	}
	return ""
}

func (m *ModelInfo) fillMissing(more *ModelInfo) {
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
