package catalog

import "penstock/config"

// kindDefaults are the properties of a kind if the configuration does not set them.
type kindDefaults struct {
	task          string
	input, output []string
}

var defaultsByKind = map[string]kindDefaults{
	config.KindChat: {
		task:  "text-generation",
		input: []string{"text"}, output: []string{"text"},
	},
	config.KindTranscription: {
		task:  "automatic-speech-recognition",
		input: []string{"audio"}, output: []string{"text"},
	},
	config.KindSpeech: {
		task:  "text-to-speech",
		input: []string{"text"}, output: []string{"audio"},
	},
	config.KindImage: {
		task:  "text-to-image",
		input: []string{"text"}, output: []string{"image"},
	},
	config.KindImageEdit: {
		task:  "image-to-image",
		input: []string{"text", "image"}, output: []string{"image"},
	},
	config.KindEmbedding: {
		task:  "feature-extraction",
		input: []string{"text"}, output: []string{"embedding"},
	},
	config.KindRerank: {
		task:  "text-ranking",
		input: []string{"text"}, output: []string{"score"},
	},
}
