package workload

import (
	"math/rand/v2"
	"strings"
)

// vocabulary are common short English words: one token each, with the space before them, in nearly every vocabulary of today.
var vocabulary = strings.Fields(`
a able about above act add after again age ago air all also am an and any are area arm art as ask at away back bad ball bank base be bear
beat bed been best big bill bit black blood blue board boat body book born both box boy bring build burn bus but buy by call came can car
card care case cat cause center change check child city class clear close cold color come cost could country course court cover cross cup
cut dark data date day dead deal deep did die do dog door down draw dream drive drop dry each early earth east easy eat edge egg eight end
even ever every eye face fact fall far farm fast fat father feel feet few field fight fill film find fine fire first fish five floor fly
food foot for force form found four free friend from front full fun game garden gas gave get girl give glass go god gold good got great
green ground group grow gun had hair half hall hand hang happy hard has hat have he head hear heart heat held help her here high hill him
his hit hold home hope horse hot hour house how hundred ice idea if in into iron is island it job join jump just keep key kid kill kind
king knew know lady lake land large last late law lay lead learn leave left leg less let letter lie life light like line list live long
look lord lose lot love low made main make man many map mark may me mean meet men might mile milk mind mine miss money month moon more most
mother move much music must my name near neck need never new news next night nine no none nor north nose not note nothing now number of off
oil old on once one only open or order other our out over own page paint pair paper park part party pass past path pay people pick piece
place plan plant play point poor port post power press price pull push put race rain ran reach read ready real red rest rich ride right
ring rise river road rock room round rule run safe said salt same sand save say school sea seat second see seed sell send sent set seven
ship shoe shop short should show side sign silver sing sister sit six size skin sky sleep slow small snow so soft soil some son song soon
sort sound south space speak stand star start state stay step still stone stop store story street strong such sugar sun sure swim table
tail take talk tall team tell ten test than that the their them then there they thin thing think this those thought three through time tiny
to today together told too took top touch town train tree trip true try turn two type under unit up us use valley very view visit voice
wait walk wall want war warm was wash watch water wave way we wear week well went were west what wheel when where which while white who why
wide wife wild will win wind winter wish with woman wood word work world would write year yes you young your`)

// appendWords appends n words of the vocabulary, each with a space behind it.
func appendWords(dst []byte, rng *rand.Rand, n int) []byte {
	for range n {
		dst = append(append(dst, vocabulary[rng.IntN(len(vocabulary))]...), ' ')
	}
	return dst
}
