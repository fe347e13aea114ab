package engine

import (
	"slices"
	"strings"
	"unicode"

	"penstock/config"
)

// taskKinds maps the names that engines use for a model's purpose to the kinds in the catalog. The
// names are Hugging Face tasks (reported by speaches), the types used by Ollama, LM Studio and Text
// Embeddings Inference, and the kinds in another edge's catalog.
var taskKinds = map[string]string{
	"automatic-speech-recognition": config.KindTranscription,
	"text-to-speech":               config.KindSpeech,
	"text-to-audio":                config.KindSpeech,
	"feature-extraction":           config.KindEmbedding,
	"sentence-similarity":          config.KindEmbedding,
	"embedding":                    config.KindEmbedding,
	"embeddings":                   config.KindEmbedding,
	"text-ranking":                 config.KindRerank,
	"reranker":                     config.KindRerank,
	"text-to-image":                config.KindImage,
	"image-to-image":               config.KindImageEdit,

	config.KindChat:          config.KindChat,
	config.KindTranscription: config.KindTranscription,
	config.KindSpeech:        config.KindSpeech,
	config.KindImage:         config.KindImage,
	config.KindImageEdit:     config.KindImageEdit,
	config.KindRerank:        config.KindRerank,
}

// modelKind returns a model's kind. It considers the engine's paths first, then the kind that the
// engine lists, and finally the model's name. guessed is true if the kind is derived from the name.
func (p *Profile) modelKind(m *ModelInfo) (kind string, guessed bool) {
	switch {
	case p.Path(config.OpChat) == "" && p.Path(config.OpTranscriptions) != "":
		return config.KindTranscription, false
	case p.Path(config.OpChat) == "" && p.Path(config.OpSpeech) != "":
		return config.KindSpeech, false
	case m.Kind != "":
		return m.Kind, false
	case p.Path(config.OpChat) == "" && p.Path(config.OpEmbeddings) != "":
		return config.KindEmbedding, false
	}
	name := strings.ToLower(m.ID)
	switch {
	case p.Path(config.OpTranscriptions) != "" && strings.Contains(name, "whisper"):
		return config.KindTranscription, true
	case p.Path(config.OpSpeech) != "" && isSpeechName(name):
		return config.KindSpeech, true
	}
	return config.KindChat, false
}

var speechModels = []string{"kokoro", "espeak", "piper", "chatterbox", "orpheus", "parler"}

// isSpeechName reports whether a word in the name is the name of a speech model, or starts or ends
// with "tts", as in xtts-v2.
func isSpeechName(name string) bool {
	for word := range strings.FieldsFuncSeq(name, func(r rune) bool { return !unicode.IsLetter(r) }) {
		if strings.HasPrefix(word, "tts") || strings.HasSuffix(word, "tts") || slices.Contains(speechModels, word) {
			return true
		}
	}
	return false
}
