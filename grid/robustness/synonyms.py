"""A small stock of words that tools' names are made of, each with others that mean the same there."""

from __future__ import annotations

from collections.abc import Mapping

_VERBS = """
get: obtain supply | fetch: obtain supply | retrieve: obtain supply | read: obtain supply | view: obtain supply
find: locate discover | search: locate discover | look: locate discover | lookup: locate discover
query: consult interrogate | ask: consult interrogate | list: enumerate itemise | show: present display
browse: explore survey | check: verify examine | verify: confirm examine | validate: confirm examine
inspect: examine survey | test: probe examine | assess: appraise gauge | evaluate: appraise gauge
measure: gauge appraise | calculate: compute reckon | compute: reckon calculate | estimate: appraise gauge
count: tally number | sum: total tally | solve: crack settle | convert: translate transform
translate: convert render | compare: contrast weigh | analyze: study dissect | analyse: study dissect
predict: forecast foresee | forecast: predict foresee | create: produce establish | make: produce establish
build: produce assemble | generate: produce compose | set: establish assign | add: append attach
insert: append attach | register: enrol record | log: record note | write: compose record | draw: sketch trace
book: reserve secure | reserve: secure hold | schedule: arrange plan | order: request purchase | buy: purchase acquire
rent: hire lease | pay: settle remit | send: dispatch transmit | mail: dispatch transmit | post: publish announce
publish: announce release | notify: alert inform | remind: alert prompt | share: circulate distribute
update: revise amend | change: revise amend | edit: revise amend | modify: revise amend | move: shift transfer
rename: relabel retitle | replace: swap exchange | copy: duplicate clone | delete: erase discard
remove: erase discard | erase: wipe discard | cancel: revoke annul | close: terminate conclude | stop: halt end
start: begin launch | open: unlock begin | play: perform run | run: execute perform | call: invoke summon
connect: attach link | download: pull save | upload: push submit | save: store keep | filter: sift screen
select: pick choose | sort: arrange rank | rank: arrange grade | detect: spot recognise | recognize: identify spot
classify: categorise label | describe: portray depict | summarize: condense digest | relate: link connect
track: follow trace | trace: follow track | issue: grant release | approve: accept grant | thank: acknowledge credit
preview: glimpse display | answer: respond reply | plan: arrange prepare | recommend: suggest advise
take: collect gather | return: yield hand | extract: pull isolate
"""
_NOUNS = """
file: document record | document: paper record | folder: directory cabinet | path: location route
content: text body | text: wording passage | name: title label | title: name heading | info: details facts
information: details facts | data: details facts | details: facts particulars | list: roster catalogue
item: article entry | product: article merchandise | order: purchase requisition | cart: basket trolley
basket: cart trolley | price: rate charge | cost: charge expense | payment: remittance settlement
invoice: bill statement | account: profile membership | user: person member | customer: client buyer
client: customer buyer | person: individual human | people: individuals humans | employee: worker colleague
guest: visitor attendee | member: participant subscriber | email: letter correspondence | mail: letter correspondence
message: note dispatch | phone: telephone line | address: residence location | location: place spot
place: spot site | city: town municipality | country: nation state | date: day moment | time: hour moment
event: occasion happening | calendar: agenda diary | meeting: appointment gathering | task: job assignment
project: undertaking venture | ticket: pass voucher | flight: airline journey | hotel: lodging accommodation
room: chamber suite | trip: journey voyage | travel: journey voyage | route: itinerary way | train: railway carriage
car: vehicle automobile | vehicle: automobile machine | weather: climate conditions | news: headlines bulletin
movie: film picture | film: movie picture | tv: television broadcast | song: track tune | music: tunes melodies
video: clip footage | image: picture photo | picture: image photo | color: shade hue | colour: shade hue
number: figure amount | value: figure quantity | amount: quantity sum | total: sum aggregate | result: outcome finding
status: state condition | state: condition situation | type: kind sort | category: class group | id: code key
key: identifier handle | code: identifier mark | query: request phrase | question: inquiry request
answer: reply response | review: opinion appraisal | rating: grade score | report: account summary
history: past chronicle | stock: share equity | company: firm business | market: exchange trade
book: volume publication
word: term expression | language: tongue idiom | page: sheet leaf | size: extent dimension | unit: measure denomination
entity: object thing | entities: objects things | concept: class notion | relation: link connection
attribute: property trait | attr: property trait | qualifier: condition modifier | expression: formula sum
calculator: arithmetic reckoner | search: lookup finder | device: appliance machine | memory: storage recall
gift: present donation | present: gift donation | registry: register roll | receipt: slip voucher
credits: contributors cast | season: series run | episode: instalment part | genre: kind style | limit: maximum cap
start: beginning origin | end: finish close | recipient: addressee receiver | subject: topic matter | body: text message
record: entry item | note: remark memo | contact: acquaintance correspondent | alarm: alert reminder
bank: lender institution | loan: credit advance | insurance: coverage protection | medicine: drug remedy
health: wellness fitness | doctor: physician medic | patient: case invalid | food: meal dish | recipe: dish formula
restaurant: eatery diner | store: shop outlet | shop: store outlet | team: squad side | player: athlete competitor
game: match contest | league: division competition | school: academy college | course: class lesson | job: position post
service: facility offering | request: application appeal | policy: rule guideline | plan: scheme programme
"""


def _read(stock: str) -> Mapping[str, tuple[str, ...]]:
    pairs = (entry.partition(":") for line in stock.strip().splitlines() for entry in line.split("|"))
    return {word.strip(): tuple(others.split()) for word, _, others in pairs}


VERBS = _read(_VERBS)
"""What a tool does, to other verbs for it."""
NOUNS = _read(_NOUNS)
"""What it does it with, to other nouns for that."""
FREE_VERBS = ("provide", "deliver", "handle", "procure")
FREE_NOUNS = ("matter", "subject", "material", "affair", "topic", "business")
"""For names that nothing is known of."""
_FUNCTION_WORDS = """
about after against also another because been before being below between both called cannot chosen could does each
either else ensure every exist exists first from given have having here into itself like made many more most much must
need needs none only other over provided same should since some specific specified such than that their them then
there these they this those through tool tools under until used user uses using various very were what when where
whether which while will with within without would your function optional required allows returns return
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
"""Words of descriptions that name nothing."""
