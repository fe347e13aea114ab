package engine

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"penstock/config"
)

//go:embed profiles/*.yaml
var bundledFiles embed.FS

// PenstockProfile is the profile of another edge, which Discover may find on the usual ports of engines.
const PenstockProfile = "penstock"

// genericName is the name of the profile from which all other profiles inherit. It is also used for
// an engine that was not detected.
const genericName = "openai"

// Profiles contains all available profiles in detection order: first the user's profiles, then the
// bundled profiles from the most specific to the most general.
type Profiles struct {
	user             []config.Engine
	byName           map[string]*Profile
	inDetectionOrder []*Profile
}

// LoadProfiles compiles the bundled and the user's profiles. A user's profile may replace a bundled
// profile that has the same name. The error contains the name of the profile and of the invalid
// member.
func LoadProfiles(user []config.Engine) (*Profiles, error) {
	specs, err := bundledSpecs()
	if err != nil {
		return nil, err
	}
	own := make(map[string]bool, len(user))
	for i := range user {
		if own[user[i].Name] {
			return nil, fmt.Errorf("engine profile %q is given twice", user[i].Name)
		}
		own[user[i].Name] = true
		specs[user[i].Name] = user[i]
	}
	p := &Profiles{user: slices.Clone(user), byName: make(map[string]*Profile, len(specs))}
	for name := range specs {
		full, err := resolveInheritance(specs, name, nil)
		if err != nil {
			return nil, err
		}
		if p.byName[name], err = newProfile(full); err != nil {
			return nil, err
		}
	}
	for i := range user {
		p.inDetectionOrder = append(p.inDetectionOrder, p.byName[user[i].Name])
	}
	for _, name := range detectionOrder {
		if !own[name] {
			p.inDetectionOrder = append(p.inDetectionOrder, p.byName[name])
		}
	}
	return p, nil
}

// WithUserProfiles returns Profiles in which user replaces the user's profiles. It returns p if the
// user's profiles have not changed.
func (p *Profiles) WithUserProfiles(user []config.Engine) (*Profiles, error) {
	if len(user) == len(p.user) && (len(user) == 0 || reflect.DeepEqual(user, p.user)) {
		return p, nil
	}
	return LoadProfiles(user)
}

// detectionOrder lists all bundled profiles. If an engine also matches the detection signs of
// another profile, the engine's profile must be first. Examples are llama.cpp's router and the
// simulator, which imitates vLLM. The profiles that require the most requests to be ruled out are
// last.
var detectionOrder = []string{
	"sim", "vllm", "sglang", "trtllm", "llamacpp-router", "llamacpp", "kokoro", "ollama", "whisper-openai", "whisper",
	"tgi", "tei", "lmstudio", PenstockProfile, "speaches", genericName,
}

// EngineNames returns the valid values of an upstream's `engine`, sorted: auto, and the names of
// the bundled and the user's profiles.
func EngineNames(user []config.Engine) []string {
	names := append([]string{config.EngineAuto}, detectionOrder...)
	for i := range user {
		names = append(names, user[i].Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// genericProfiles lists the profiles that do not describe a specific kind of engine.
var genericProfiles = []string{genericName, "sim", PenstockProfile}

// KnownEngines returns the engine names that a configuration may use without defining them. They
// are computed only once, because they are needed whenever a configuration is loaded.
var KnownEngines = sync.OnceValue(func() config.KnownProfiles {
	k := config.KnownProfiles{Engines: EngineNames(nil)}
	profiles, err := LoadProfiles(nil)
	if err != nil {
		panic("BUG: " + err.Error()) // the files are embedded
	}
	for _, name := range k.Engines {
		p := profiles.byName[name]
		if p == nil { // auto
			continue
		}
		if ContinuesAnswers(p) {
			k.Continuing = append(k.Continuing, name)
		}
		if PriorityOrder(p) != "" {
			k.Ordering = append(k.Ordering, name)
		}
		if p.CacheSalt() != "" {
			k.Salting = append(k.Salting, name)
		}
		if !p.HasQuirk(config.QuirkLoadsOnDemand) && !slices.Contains(genericProfiles, name) {
			k.Fixed = append(k.Fixed, name)
		}
	}
	return k
})

// bundledSpecs parses the embedded profiles. An error is a bug.
func bundledSpecs() (map[string]config.Engine, error) {
	files, err := fs.Glob(bundledFiles, "profiles/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list bundled engine profiles: %w", err)
	}
	specs := make(map[string]config.Engine, len(files))
	for _, file := range files {
		src, err := bundledFiles.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read bundled engine profile %s: %w", file, err)
		}
		var e config.Engine
		if err := config.Decode(file, src, &e); err != nil {
			return nil, fmt.Errorf("parse bundled engine profile %s: %w", file, err)
		}
		specs[e.Name] = e
	}
	return specs, nil
}

// resolveInheritance follows `like` to the generic profile and merges the profiles on the way back.
// A profile that replaces a bundled profile cannot inherit from it, because the name refers to the
// new profile.
func resolveInheritance(specs map[string]config.Engine, name string, path []string) (*config.Engine, error) {
	e := specs[name]
	if name == genericName && e.Like == "" {
		return &e, nil
	}
	like := e.Like
	if like == "" {
		like = genericName
	}
	path = append(path, name)
	if slices.Contains(path, like) {
		circle := strings.Join(append(path, like), " → ")
		return nil, fmt.Errorf("engine profile %q: like: it derives from itself (%s)", path[0], circle)
	}
	if _, ok := specs[like]; !ok {
		all := strings.Join(slices.Sorted(maps.Keys(specs)), ", ")
		return nil, fmt.Errorf("engine profile %q: like: there is no profile %q; use one of %s", name, like, all)
	}
	base, err := resolveInheritance(specs, like, path)
	if err != nil {
		return nil, err
	}
	// Detection signs are not inherited, because a profile that is `like` vLLM must not match every
	// vLLM engine.
	below := *base
	below.Detect, below.Ports, below.Title = nil, nil, ""
	full := e.InheritFrom(&below)
	return &full, nil
}

// ByName returns the profile with this name.
func (p *Profiles) ByName(name string) (*Profile, bool) {
	profile, ok := p.byName[name]
	return profile, ok
}

// All returns all profiles in detection order. The slice is shared.
func (p *Profiles) All() []*Profile { return p.inDetectionOrder }

func (p *Profiles) genericProfile() *Profile { return p.byName[genericName] }

// UsualAddresses returns the sorted loopback addresses with all usual ports, except the addresses
// in skip (host:port or :port). The caller passes the addresses of its listeners as skip, so that
// an edge does not discover itself.
func (p *Profiles) UsualAddresses(skip ...string) []string {
	taken := make(map[string]bool, len(skip))
	for _, address := range skip {
		if _, port, err := net.SplitHostPort(address); err == nil {
			taken[port] = true
		}
	}
	ports := map[int]bool{}
	for _, profile := range p.inDetectionOrder {
		for _, port := range profile.spec.Ports {
			ports[port] = !taken[strconv.Itoa(port)]
		}
	}
	var out []string
	for _, port := range slices.Sorted(maps.Keys(ports)) {
		if ports[port] {
			out = append(out, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		}
	}
	return out
}

// IsAuto reports whether an upstream's `engine` asks for detection.
func IsAuto(engine string) bool { return engine == "" || engine == config.EngineAuto }

// InitialProfile returns the profile to use before detection: the named profile, or the generic
// profile for auto.
func (p *Profiles) InitialProfile(engine string) (*Profile, error) {
	if IsAuto(engine) {
		return p.genericProfile(), nil
	}
	profile, ok := p.byName[engine]
	if !ok {
		return nil, fmt.Errorf("engine %q is not known: use auto, a bundled profile or one of `engines`", engine)
	}
	return profile, nil
}

// ProfileAfterReload returns an upstream's profile after a reload: the detected profile, unless the
// operator has changed `engine`. before and now are the old and the new value of `engine`.
func (p *Profiles) ProfileAfterReload(recognised *Profile, before, now string) *Profile {
	if profile, ok := p.byName[recognised.Name()]; ok && before == now {
		return profile
	}
	return p.FallbackProfile(now)
}

// detectionCandidates returns the profiles from which detection chooses. For "auto", these are all profiles.
// Otherwise they are the variants of the named profile: profiles that are `like` it and have
// detection signs.
func (p *Profiles) detectionCandidates(engine string) []*Profile {
	if IsAuto(engine) {
		return p.inDetectionOrder
	}
	var out []*Profile
	for _, profile := range p.inDetectionOrder {
		if profile.spec.Like == engine && len(profile.spec.Detect) > 0 {
			out = append(out, profile)
		}
	}
	return out
}

// FallbackProfile returns the profile to use if detection finds no match.
func (p *Profiles) FallbackProfile(engine string) *Profile {
	if profile, ok := p.byName[engine]; ok {
		return profile
	}
	return p.genericProfile()
}
