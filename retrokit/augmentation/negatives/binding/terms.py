"""Two words that name one thing (*machine learning*): their parts never part in a near-miss of binding.

Written down by hand, and the pairs of an adjective and a noun that stand together far more often than their words
alone would have it (normalised pointwise mutual information of 0.5 and more) in abstracts, web pages and captions.
"""

from __future__ import annotations

COLLOCATIONS = frozenset(
    " ".join(term.split())
    for term in """
    abasic site, abstractive summarization, academic library, acetic acid, activated charcoal, activated macrophage,
    acyclic graph, adaptive immunity, added sugar, adipose tissue, adoptive transfer, adult neurogenesis,
    adversarial attack, adversarial example, adversarial perturbation, adverse effect, adverse event, aerial
    vehicle, alkaline phosphatase, alternative lengthening, alternative splicing, alveolar macrophage, annual
    meeting, annual report, annual review, antimicrobial peptide, antipsychotic drug, antiretroviral drug,
    antiretroviral therapy, arachidonic acid, architectural design, arterial pressure, arterial stiffness,
    artificial chromosome, artificial intelligence, asymptotic optimality, atherosclerotic lesion, atherosclerotic
    plaque, atomic energy, atrial fibrillation, audiovisual speech, automatic indexing, automatic metric, autonomic
    neuropathy, autonomous driving, autonomous navigation, autonomous vehicle, bacterial infection, bacterial
    pathogen, bad breath, bad idea, bad news, bad thing, bariatric surgery, basic idea, basic research, basic
    science, bayesian inference, behavioral cloning, beneficial effect, better understanding, bibliographic record,
    big data, bilinear pooling, bimanual manipulation, binary classification, binary code, bipedal robot, bipolar
    disorder, black box, black hole, black market, black people, blood pressure, broad range, broad spectrum, brown
    fat, caloric restriction, canonical correlation, cardiovascular disease, cardiovascular morbidity, catalytic
    subunit, categorical variable, causal discovery, causal inference, cellular senescence, central bank, central
    obesity, central role, cerebral cortex, cerebral palsy, cerebrospinal fluid, certain extent, cervical cancer,
    cervical carcinoma, chemical abstract, chemical engineering, chemical title, chemotherapeutic agent, chimeric
    antigen, chromosomal aberration, chromosomal instability, chronic hepatitis, chronic inflammation, chronic
    kidney, chronological age, civil right, civil war, clear margin, clinical trial, clonal evolution, close friend,
    close relationship, closed form, cluttered scene, cognitive deficit, cognitive impairment, cognitive science,
    cold war, cold water, collaborative filtering, collaborative perception, colorectal cancer, common sense, common
    stock, complete lack, compressed sensing, computational burden, computational complexity, computational cost,
    computational efficiency, computational overhead, computer science, computer vision, conditional independence,
    conditional moment, confocal microscopy, conformational change, consecutive frame, considerable extent,
    constitutive activation, contextual bandit, contraceptive efficacy, contrastive learning, controlled trial,
    convolutional layer, coronary artery, coronary heart, correct answer, credit card, critical mass, crucial role,
    cultural background, cumulative incidence, cumulative regret, cumulative reward, current awareness, current
    state, current work, cyclic adenosine, cytokine production, cytoplasmic tail, daily dose, daily life, daily
    living, dark matter, deep learning, deep reinforcement, dendritic cell, dendritic spine, dental implant,
    detailed ablation, detailed description, developed country, dexterous hand, dexterous manipulation, diabetic
    patient, diabetic pregnancy, diastolic dysfunction, dietary intake, dietary restriction, differential equation,
    differential privacy, digital computer, digital library, discrete valuation, disease burden, disentangled
    representation, distant metastasis, distant supervision, distributional shift, divided catalog, dynamic
    programming, dynamical system, early detection, early morning, early stage, early year, ectopic expression,
    elastic actuator, electrical engineering, electronic database, electronic health, electronic mail, embryonic
    fibroblast, embryonic germ, embryonic stem, emotional support, empathetic dialogue, endometrial cancer,
    endometrial carcinoma, endoplasmic reticulum, endothelial cell, enzymatic activity, epidermal growth, epigenetic
    mark, epigenetic modification, epistemic uncertainty, epithelial cell, ergodic search, essential amino, ethnic
    group, exact recovery, existing work, expected return, experimental result, exponential family, expressive
    power, extensive experiment, external validity, extracellular matrix, extracellular trap, extracellular vesicle,
    extrinsic calibration, facial expression, facial landmark, factual consistency, fair value, fake news, family
    doctor, fast food, faster convergence, federal government, federal reserve, female gender, fetal brain, fetal
    liver, financial aid, fine detail, first time, focal adhesion, focal contact, folic acid, foreign exchange,
    foreign minister, foreign policy, fractional anisotropy, free market, frontal cortex, full time, fungal
    infection, future research, future work, fuzzy set, gastric cancer, gastric juice, gastric lavage,
    gastrointestinal tract, gaussian process, general election, general manager, general public, generative model,
    genetic algorithm, genetic alteration, genetic screen, genomic instability, genomic locus, genomic stability,
    geometric primitive, germinal center, gestational age, gestational diabetes, glomerular filtration, glycaemic
    control, glycemic control, golden age, good idea, good news, good thing, grammatical error, granular material,
    graphical model, great britain, great deal, great extent, great importance, great promise, great success, green
    card, green tea, haematopoietic stem, haptic device, haptic interface, hard disk, hard drive, hard time, healthy
    donor, healthy volunteer, hedge fund, hematologic malignancy, hematopoietic stem, hepatic lipid, hepatic
    steatosis, hepatocellular carcinoma, hidden unit, high blood, high level, high probability, high resource, high
    school, high speed, higher eukaryote, higher order, hippocampal neuron, hippocampal slice, hippocampal volume,
    homologous recombination, hot dog, hot water, human being, human body, human brain, human papillomavirus, human
    rights, hyperparameter tuning, hypoglycaemic counterregulation, hypoxic condition, immune response, immune
    system, immunohistochemical staining, immunological synapse, immunosuppressive drug, implicit regularization,
    important role, imprinted gene, income tax, independent interest, inductive bias, industrial average, inertial
    measurement, infectious disease, informal communication, information retrieval, information science, inherent
    ambiguity, inner loop, inner product, integral part, intensive care, intercellular adhesion, intercellular
    communication, interest rate, interlibrary loan, internal medicine, intestinal metaplasium, intestinal
    microbiota, intracellular pathogen, intraepithelial neoplasium, invasive surgery, inverted pendulum, ischaemic
    heart, ischaemic stroke, ischemic heart, ischemic stroke, iterative refinement, known fact, large amount, large
    extent, large language, large margin, large number, large part, large portion, large scale, late life, late
    night, late stage, late year, lateral sclerosis, legal action, legged robot, lentiviral vector, lesser extent,
    light bulb, light year, linear program, linear regression, little bit, live birth, living room, local minimum,
    local optimum, logical reasoning, logistic regression, long range, long run, long term, long time, low level,
    low power, low rank, low resource, lower bound, lymphoblastic leukemia, machine learning, magnetic field,
    magnetic resonance, magnetic tape, main result, major depressive, major histocompatibility, major league, major
    role, mammary gland, mammographic density, manual annotation, marginal likelihood, marked increase, mechanistic
    insight, mechanistic link, medical record, medical school, meiotic recombination, mental disorder, mental
    health, mental illness, mesenchymal stem, mesenchymal transition, metabolic syndrome, metric learning, microbial
    community, microstructural integrity, middle school, mild assumption, mild condition, minor allele,
    mitochondrial dysfunction, mitochondrial membrane, mitotic chromosome, mitotic spindle, mixed integer, mobile
    device, mobile manipulator, mobile phone, mobile robot, modified version, molecular basis, molecular mechanism,
    molecular profiling, molecular weight, monoclonal antibody, monocular camera, monocular depth, multicellular
    organism, mutual fund, mutual information, myelodysplastic syndrome, myocardial infarction, named entity,
    national average, national institute, national security, native american, natriuretic peptide, natural disaster,
    natural gas, natural image, natural killer, natural language, natural resource, natural science, natural
    selection, near future, negative control, negative correlation, negative feedback, negative regulator, neonatal
    death, neonatal mortality, neoplastic transformation, nervous system, neural architecture, neural crest, neural
    network, neurodegenerative disease, neurodegenerative disorder, neurofibrillary tangle, neurological disorder,
    neuropathic pain, neurotrophic factor, new ground, new jersey, new mexico, new york, new zealand, nitric oxide,
    noisy label, normal form, normal karyotype, north korea, northern ireland, nuclear energy, nuclear power,
    nuclear program, nuclear receptor, nuclear translocation, nuclear weapon, nucleic acid, numerical experiment,
    numerical simulation, objective function, official name, old age, old people, older adult, older man, older
    people, older person, online learning, open access, open market, open question, open source, optical flow,
    optimal transport, oral administration, organic chemistry, organic matter, oxidative phosphorylation, oxidative
    stress, palindromic repeat, palliative care, pancreatic cancer, pancreatic ductal, pancreatic islet, part time,
    partial observability, partial occlusion, perceived age, peripheral blood, personal computer, pharmacological
    inhibition, photometric stereo, physical activity, physical education, physical science, physical therapy,
    physical world, pivotal role, polar bear, poor prognosis, positive control, positive correlation, positive
    feedback, postmenopausal woman, powerful tool, prefrontal cortex, premenopausal woman, presidential election,
    previous study, previous work, primary care, primary cilia, primary endpoint, primary prevention, primary
    school, prime minister, principal component, principled way, prior art, prior knowledge, prior work, private
    equity, private sector, professional librarian, prognostic factor, promyelocytic leukemia, proportional hazard,
    prospective cohort, protective immunity, proximal gradient, psychiatric disorder, psychotropic drug, public
    domain, public health, public library, public opinion, public school, public sector, public service, pulmonary
    hypertension, pyramidal neuron, quadratic program, quadratic programming, quadruped robot, quadrupedal robot,
    quantitative pcr, quantitative trait, random forest, random projection, random walk, randomised trial, rational
    design, raw material, raw pixel, reactive oxygen, real estate, real time, recent advance, recent advancement,
    recent decade, recent study, recent work, recent year, receptive field, rectal cancer, red blood, red cross, red
    tape, regenerative medicine, regular interval, reinforcement learning, related work, relative risk, remote
    sensing, renal failure, renal insufficiency, repressive complex, residual block, restrictive assumption,
    retinoic acid, retrieved document, ribosomal protein, ribosomal subunit, rigid body, robotic arm, robotic
    manipulation, robotic platform, salivary gland, scientific community, scientific literature, scientific method,
    secondary end, secondary school, selective dissemination, selective pressure, selective serotonin, semantic
    parsing, semantic segmentation, sensitive attribute, sensory neuron, septic shock, sequential decision, severe
    hypoglycemia, severe malaria, severe sepsis, sexual intercourse, shared autonomy, short hairpin, short run,
    short story, short term, short time, side effect, signed distance, significant improvement, significant wave,
    simultaneous localization, single cell, single market, single mother, singular value, skeletal muscle, slow
    convergence, small amount, small business, small interfering, small molecule, small number, small scale, smooth
    muscle, social defeat, social media, social network, social science, social scientist, social security, social
    work, social worker, soft drink, solar cell, solar energy, solar panel, solar system, solid tumor, somatic cell,
    somatic mutation, south korea, sparse coding, spatial audio, special attention, special case, special effect,
    special emphasis, special force, special library, special reference, spectral clustering, spinal cord, spurious
    correlation, square feet, square foot, square kilometer, square mile, square root, squared error, stalled
    replication, standard deviation, standard error, standard practice, state art, stationary phase, stationary
    point, statistical mechanics, stem cell, stochastic gradient, stock exchange, stock market, strong baseline,
    strong convexity, structured pruning, structured sparsity, sublinear regret, submodular function, submodular
    maximization, substantial improvement, subventricular zone, sufficient condition, superior performance,
    supervised learning, supplementary material, supreme court, surgical resection, sweet potato, synaptic
    plasticity, synaptic transmission, synaptic vesicle, systematic review, systemic insulin, systemic lupus,
    temporal logic, textual description, textual entailment, theoretical guarantee, theoretical justification,
    therapeutic potential, therapeutic target, thermal inertia, transcriptional activator, transcriptional
    regulation, transcriptional repression, transcriptional repressor, transgenic mouse, tricarboxylic acid,
    tricyclic antidepressant, true love, true positive, ulcerative colitis, umbilical cord, umbilical vein,
    unanswered question, underwater vehicle, unified framework, united nation, united states, unobserved variable,
    unstable angina, unstructured environment, untranslated region, untrimmed video, upper bound, upper confidence,
    upper limit, vaccine efficacy, variable length, variable stiffness, vascular calcification, vector machine,
    venous thrombosis, verbal descriptor, vertebral fracture, viral infection, viral load, viral replication,
    virtual reality, visceral fat, visual odometry, visual servoing, weak supervision, weighted sum, western blot,
    white balance, white blood, white house, white matter, white noise, white paper, white people, white photo, wide
    range, wide variety, widespread adoption, widespread use, world war, young age, young people
""".split(",")
)
