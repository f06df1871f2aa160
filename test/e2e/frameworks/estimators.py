"""Estimators of every sort, each fitted on small data: `served` as (estimator, rows to ask for), `refused` as (object, reason)."""
import warnings

import numpy as np
import pandas
from sklearn.base import clone
from sklearn import calibration, cluster, compose, covariance, cross_decomposition, decomposition, discriminant_analysis
from sklearn import dummy, ensemble, feature_selection, gaussian_process, isotonic, kernel_approximation, linear_model
from sklearn import manifold, mixture, model_selection, multiclass, multioutput, naive_bayes, neighbors, neural_network
from sklearn import pipeline, preprocessing, random_projection, svm, tree
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_diabetes, load_iris
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KernelDensity
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

warnings.simplefilter("ignore")
random = np.random.default_rng(3)
iris = load_iris()
flowers, kinds = iris.data, iris.target
species = iris.target_names[kinds].astype(object)
some_flowers = flowers[::11]
patients, target = load_diabetes(return_X_y=True)
two_targets = np.stack([target, -target / 3], axis=1)
gaps = np.where(random.random(flowers.shape) < 0.1, np.nan, flowers)
letters = random.choice(np.array(["S", "C", "Q"], dtype=object), (60, 2))
is_c = (letters[:, 0] == "C").astype(int)
ports = random.choice(np.array(["Cork", "Derby", "Essen"], dtype=object), 60)
texts = np.array(["%s day at %s" % (random.choice(["good", "bad", "grey"]), port) for port in ports], dtype=object)
frame = pandas.DataFrame({"age": random.uniform(1, 80, 60), "fare": random.uniform(5, 90, 60), "port": ports, "note": texts})
frame["cabin"] = pandas.Series(random.choice(np.array([1, 2, 3]), 60))
frame["unused"] = "nothing"
by_ship = np.where((frame["port"] == "Cork") ^ (frame["age"] > 40), "by ship", "by train")
gappy = frame[["age", "port"]].astype({"port": object}).copy()
gappy.loc[::7, "port"] = np.nan
gappy.loc[::9, "age"] = np.nan
several_labels = np.stack([kinds == 0, flowers[:, 0] > 6, flowers[:, 1] > 3], axis=1).astype(int)
unequal_targets = np.stack([kinds, kinds == 1], axis=1).astype(int)


def numbers():
    classify = {
        "logistic": LogisticRegression(max_iter=300),
        "logistic_cv_pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
        "linear_svc": svm.LinearSVC(),
        "svc_probability": calibration.CalibratedClassifierCV(svm.SVC(), cv=2, ensemble=False),
        "svc": svm.SVC(),
        "sgd": linear_model.SGDClassifier(random_state=0),
        "ridge_classifier": linear_model.RidgeClassifier(),
        "nearest": neighbors.KNeighborsClassifier(3),
        "bayes": naive_bayes.GaussianNB(),
        "tree": tree.DecisionTreeClassifier(random_state=0),
        "forest": ensemble.RandomForestClassifier(5, random_state=0),
        "extra_trees": ensemble.ExtraTreesClassifier(5, random_state=0),
        "boosting": ensemble.GradientBoostingClassifier(n_estimators=3, random_state=0),
        "hist_boosting": ensemble.HistGradientBoostingClassifier(max_iter=3),
        "ada_boost": ensemble.AdaBoostClassifier(n_estimators=3, random_state=0),
        "bagging": ensemble.BaggingClassifier(LogisticRegression(max_iter=200), 3, max_features=2, random_state=0),
        "perceptron_layers": neural_network.MLPClassifier((4,), max_iter=30, random_state=0),
        "discriminant": discriminant_analysis.LinearDiscriminantAnalysis(),
        "quadratic": discriminant_analysis.QuadraticDiscriminantAnalysis(),
        "process": gaussian_process.GaussianProcessClassifier(),
        "one_against_rest": multiclass.OneVsRestClassifier(LogisticRegression()),
        "grid": model_selection.GridSearchCV(make_pipeline(StandardScaler(), svm.SVC()), {"svc__C": [1, 2]}, cv=2),
        "calibrated": calibration.CalibratedClassifierCV(naive_bayes.GaussianNB(), cv=2),
        "voting": ensemble.VotingClassifier([("a", LogisticRegression(max_iter=300)), ("b", naive_bayes.GaussianNB())], voting="soft"),
        "voting_hard": ensemble.VotingClassifier([("a", LogisticRegression(max_iter=300)), ("b", naive_bayes.GaussianNB())]),
        "stacking": ensemble.StackingClassifier([("a", tree.DecisionTreeClassifier(max_depth=2)), ("b", naive_bayes.GaussianNB())], cv=2),
        "dummy": dummy.DummyClassifier(),
        "selected": make_pipeline(feature_selection.SelectKBest(k=2), LogisticRegression()),
        "eliminated": feature_selection.RFE(LogisticRegression(max_iter=300), n_features_to_select=2),
        "threshold": preprocessing_threshold(),
    }
    for name, estimator in classify.items():
        yield name, estimator.fit(flowers, species), some_flowers
    float32 = flowers.astype(np.float32)
    for name, estimator in {
        "logistic_float32": LogisticRegression(max_iter=300),
        "nearest_float32": neighbors.KNeighborsClassifier(3),
        "layers_float32": neural_network.MLPClassifier((4,), max_iter=30, random_state=0),
    }.items():
        yield name, estimator.fit(float32, kinds), float32[::11]
    regress = {
        "line": LinearRegression(),
        "lasso": linear_model.Lasso(),
        "forest_regressor": ensemble.RandomForestRegressor(5, random_state=0),
        "hist_regressor": ensemble.HistGradientBoostingRegressor(max_iter=3),
        "nearest_regressor": neighbors.KNeighborsRegressor(),
        "svr_scaled": compose.TransformedTargetRegressor(make_pipeline(StandardScaler(), svm.SVR()), transformer=StandardScaler()),
        "poisson": linear_model.PoissonRegressor(max_iter=300),
        "stacked_regressor": ensemble.StackingRegressor([("a", LinearRegression()), ("b", tree.DecisionTreeRegressor(max_depth=2))], cv=2),
    }
    for name, estimator in regress.items():
        yield name, estimator.fit(patients, target), patients[:7]
    yield "line_float32", LinearRegression().fit(patients.astype(np.float32), target), patients[:7].astype(np.float32)
    yield "huge_answers", LinearRegression().fit(patients, target * 1e9), patients[:7]
    yield "isotonic", isotonic.IsotonicRegression(out_of_bounds="clip").fit(patients[:, :1], target), patients[:7, :1]
    yield "one_column", LinearRegression().fit(patients[:, :1], target), patients[:7, :1]


def preprocessing_threshold():
    """As float32, 0.7 is below 0.7 and 0.1 is above 0.1."""
    return make_pipeline(preprocessing.Binarizer(threshold=1.4), LogisticRegression())


def several_answers():
    logistic = LogisticRegression(max_iter=300)
    for name, estimator in {
        "two_lines": LinearRegression(),
        "two_ridges": multioutput.MultiOutputRegressor(linear_model.Ridge()),
        "two_forests": ensemble.RandomForestRegressor(4, random_state=0),
        "two_boosted": multioutput.MultiOutputRegressor(ensemble.GradientBoostingRegressor(n_estimators=3)),
        "regressor_chain": multioutput.RegressorChain(linear_model.Ridge()),
        "pls": cross_decomposition.PLSRegression(2),
    }.items():
        yield name, estimator.fit(patients, two_targets), patients[:7]
    for name, estimator in {
        "labels_forest": ensemble.RandomForestClassifier(4, random_state=0),
        "labels_layers": neural_network.MLPClassifier((4,), max_iter=30, random_state=0),
        "labels_rest": multiclass.OneVsRestClassifier(logistic),
        "labels_chain": multioutput.ClassifierChain(logistic),
        "labels_logistic": multioutput.MultiOutputClassifier(logistic),
        "labels_nearest": neighbors.KNeighborsClassifier(3),
    }.items():
        yield name, estimator.fit(flowers, several_labels), some_flowers
    yield "unequal", multioutput.MultiOutputClassifier(logistic).fit(flowers, unequal_targets), some_flowers
    yield "unequal_forest", ensemble.RandomForestClassifier(4, random_state=0).fit(flowers, unequal_targets), some_flowers
    words = np.stack([species, np.where(kinds == 1, "yes", "no")], axis=1).astype(object)
    yield "unequal_words", multioutput.MultiOutputClassifier(logistic).fit(flowers, words), some_flowers


def labels():
    for name, values in {
        "labels_bool": kinds == 1,
        "labels_int32": kinds.astype(np.int32) * 10,
        "labels_unicode": np.where(kinds == 1, "ja ✓", "nein"),
        "labels_two": kinds == 2,
    }.items():
        yield name, LogisticRegression(max_iter=300).fit(flowers, values), some_flowers


def without_classes():
    for name, estimator in {
        "kmeans": cluster.KMeans(3, n_init=1, random_state=0),
        "mini_kmeans": cluster.MiniBatchKMeans(3, n_init=1, random_state=0),
        "birch": cluster.Birch(n_clusters=3),

        "mixture": mixture.GaussianMixture(3, random_state=0),
        "isolation": ensemble.IsolationForest(n_estimators=8, random_state=0),
        "novelty": neighbors.LocalOutlierFactor(novelty=True),
        "one_class": svm.OneClassSVM(),
        "envelope": covariance.EllipticEnvelope(random_state=0),
        "density": KernelDensity(),
        "pca": decomposition.PCA(2),
        "pca_scaled": make_pipeline(StandardScaler(), decomposition.PCA(2)),
        "polynomial": preprocessing.PolynomialFeatures(2),
        "binned": preprocessing.KBinsDiscretizer(3, encode="onehot", quantile_method="averaged_inverted_cdf")
        if hasattr(preprocessing.KBinsDiscretizer(), "quantile_method")
        else preprocessing.KBinsDiscretizer(3, encode="onehot"),
        "box_cox": preprocessing.PowerTransformer("box-cox"),
        "quantiles": preprocessing.QuantileTransformer(n_quantiles=10),
        "normalizer": preprocessing.Normalizer(),
        "leaves": ensemble.RandomTreesEmbedding(3, random_state=0),
        "projection": random_projection.SparseRandomProjection(2, random_state=0),
        "kernel": kernel_approximation.RBFSampler(n_components=5, random_state=0),
        "logarithm": preprocessing.FunctionTransformer(np.log),
    }.items():
        yield name, estimator.fit(flowers), some_flowers
    float32 = flowers.astype(np.float32)
    yield "kmeans_float32", cluster.KMeans(3, n_init=1, random_state=0).fit(float32), float32[::11]
    yield "kmeans_pipeline", make_pipeline(StandardScaler(), cluster.KMeans(3, n_init=1, random_state=0)).fit(flowers), some_flowers


def missing():
    yield "imputed", make_pipeline(SimpleImputer(), LogisticRegression(max_iter=300)).fit(gaps, kinds), gaps[::11]
    yield "imputed_nearest", make_pipeline(KNNImputer(), LogisticRegression(max_iter=300)).fit(gaps, kinds), gaps[::11]
    yield "hist_missing", ensemble.HistGradientBoostingClassifier(max_iter=3).fit(gaps, kinds), gaps[::11]
    yield "forest_missing", ensemble.RandomForestClassifier(4, random_state=0).fit(gaps, kinds), gaps[::11]
    words = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder())
    columns = make_column_transformer((SimpleImputer(add_indicator=True), ["age"]), (words, ["port"]))
    yield "frame_missing", make_pipeline(columns, LogisticRegression()).fit(gappy, by_ship), gappy[:15]
    columns = make_column_transformer(("passthrough", ["age"]), (OneHotEncoder(handle_unknown="ignore"), ["port"]))
    yield "category_missing", make_pipeline(columns, ensemble.HistGradientBoostingClassifier(max_iter=3)).fit(gappy, by_ship), gappy[:15]


def lenient():
    return OneHotEncoder(handle_unknown="ignore")


def strings():
    yield "letters", make_pipeline(lenient(), LogisticRegression()).fit(letters, is_c), letters[:9]
    yield "letters_strict", make_pipeline(OneHotEncoder(), LogisticRegression()).fit(letters, is_c), letters[:9]
    yield "letters_fixed", make_pipeline(OrdinalEncoder(), tree.DecisionTreeClassifier()).fit(letters.astype("U1"), is_c), letters[:9]
    yield "letters_encoded", OrdinalEncoder().fit(letters), letters[:9]
    yield "letters_grid", model_selection.GridSearchCV(make_pipeline(lenient(), LogisticRegression()), {"logisticregression__C": [1, 2]}, cv=2).fit(letters, is_c), letters[:9]
    yield "letters_bagged", ensemble.VotingClassifier([("a", make_pipeline(lenient(), LogisticRegression())), ("b", make_pipeline(lenient(), naive_bayes.BernoulliNB()))], voting="soft").fit(letters, is_c), letters[:9]
    yield "letters_calibrated", calibration.CalibratedClassifierCV(make_pipeline(lenient(), svm.LinearSVC()), cv=2).fit(letters, is_c), letters[:9]
    yield "letters_two", multioutput.MultiOutputClassifier(make_pipeline(lenient(), LogisticRegression())).fit(letters, np.stack([is_c, 1 - is_c], axis=1)), letters[:9]
    yield "letters_imputed", SimpleImputer(strategy="most_frequent").fit(letters), letters[:9]
    yield "one_letter", make_pipeline(lenient(), LogisticRegression()).fit(letters[:, :1], is_c), letters[:9, :1]
    mixed = np.stack([letters[:, 0], random.integers(0, 3, 60), random.random(60)], axis=1).astype(object)
    columns = compose.ColumnTransformer([("words", OneHotEncoder(), [0]), ("whole", OneHotEncoder(), [1])], remainder="passthrough")
    yield "mixed_array", make_pipeline(columns, LogisticRegression()).fit(mixed, is_c), mixed[:9]
    yield "codes", make_pipeline(OneHotEncoder(), LogisticRegression()).fit(random.choice([0.1, 0.7], (60, 2)), is_c), np.array([[0.1, 0.7], [0.7, 0.7]])
    ids = np.array([[2**60 + 1], [2**60 + 3], [5]] * 20)
    yield "large_ids", make_pipeline(OneHotEncoder(), LogisticRegression()).fit(ids, is_c), ids[:3]
    flags = random.random((60, 2)) > 0.5
    yield "flags", make_pipeline(OneHotEncoder(), LogisticRegression()).fit(flags, is_c), flags[:9]
    yield "label_encoder", preprocessing.LabelEncoder().fit(ports), ports[:9]


def texts_and_frames():
    some = texts[:9].tolist()
    yield "sentiment", make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, by_ship), some
    yield "text_hashed", make_pipeline(HashingVectorizer(n_features=64), linear_model.SGDClassifier(loss="log_loss", random_state=0)).fit(texts, is_c), some
    yield "text_counts", CountVectorizer().fit(texts), some
    yield "text_union", make_pipeline(make_union(TfidfVectorizer(), TfidfVectorizer(analyzer="char", ngram_range=(2, 2))), naive_bayes.MultinomialNB()).fit(texts, by_ship), some
    yield "text_topics", make_pipeline(TfidfVectorizer(), decomposition.TruncatedSVD(2, random_state=0)).fit(texts), some
    yield "text_grid", model_selection.GridSearchCV(make_pipeline(TfidfVectorizer(), svm.LinearSVC()), {"linearsvc__C": [1, 2]}, cv=2).fit(texts, is_c), some
    yield "text_clusters", make_pipeline(TfidfVectorizer(), cluster.KMeans(3, n_init=1, random_state=0)).fit(texts), some
    yield "text_lines", make_pipeline(TfidfVectorizer(), linear_model.Ridge()).fit(texts, frame["fare"]), some
    yield "text_two", make_pipeline(TfidfVectorizer(), multioutput.MultiOutputClassifier(LogisticRegression())).fit(texts, np.stack([is_c, 1 - is_c], axis=1)), some
    columns = make_column_transformer((TfidfVectorizer(), "note"), (StandardScaler(), ["age", "fare"]))
    yield "text_and_numbers", make_pipeline(columns, LogisticRegression()).fit(frame, by_ship), frame[:9]
    array = frame[["note", "age"]].to_numpy(dtype=object)
    columns = compose.ColumnTransformer([("text", TfidfVectorizer(), 0), ("age", StandardScaler(), [1])])
    yield "text_and_array", make_pipeline(columns, LogisticRegression()).fit(array, by_ship), array[:9]
    encode = make_pipeline(SimpleImputer(strategy="constant", fill_value="none"), OneHotEncoder(handle_unknown="ignore"))
    columns = make_column_transformer((make_pipeline(SimpleImputer(), StandardScaler()), ["age", "fare"]), (encode, ["port"]))
    travellers = frame[["age", "fare", "port"]]
    yield "travellers", make_pipeline(columns, LogisticRegression()).fit(travellers, by_ship), travellers[:9]
    yield "travellers_table", clone(columns).fit(travellers), travellers[:9]
    columns = make_column_transformer((OneHotEncoder(), make_column_selector(dtype_exclude="number")), remainder="passthrough")
    yield "travellers_rest", make_pipeline(columns, ensemble.RandomForestClassifier(4, random_state=0)).fit(travellers, by_ship), travellers[:9]
    yield "travellers_search", model_selection.RandomizedSearchCV(make_pipeline(clone(columns), LogisticRegression(max_iter=500)), {"logisticregression__C": [1, 2]}, n_iter=1, cv=2).fit(travellers, by_ship), travellers[:9]
    yield "frame_numbers", make_pipeline(StandardScaler(), LinearRegression()).fit(frame[["age", "fare"]], is_c), frame[["age", "fare"]][:9]
    yield "frame_forest", ensemble.RandomForestRegressor(4, random_state=0).fit(frame[["age", "fare"]], is_c), frame[["age", "fare"]][:9]
    columns = make_column_transformer((OneHotEncoder(), ["cabin"]), ("drop", ["fare"]), (StandardScaler(), ["age"]))
    yield "frame_codes", make_pipeline(columns, LogisticRegression()).fit(frame, by_ship), frame[:9]
    framed = make_pipeline(StandardScaler(), decomposition.PCA(1)).set_output(transform="pandas")
    yield "frame_output", framed.fit(frame[["age", "fare"]]), frame[["age", "fare"]][:9]
    ports_alone = frame[["port", "note"]].astype(object)
    yield "frame_letters", make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression()).fit(ports_alone, by_ship), ports_alone[:9]
    categories = travellers.astype({"port": "category"})
    yield "frame_category", ensemble.HistGradientBoostingClassifier(max_iter=3, categorical_features="from_dtype").fit(categories, by_ship), categories[:9]
    yield "target_encoded", make_pipeline(preprocessing.TargetEncoder(cv=2), LogisticRegression()).fit(letters, is_c), letters[:9]


def served():
    for group in (numbers, several_answers, labels, without_classes, missing, strings, texts_and_frames):
        yield from group()


def refused():
    """The file's object, and what the load must say."""
    yield "dictionary", {"model": LogisticRegression().fit(flowers, kinds)}, "holds a dict and no estimator"
    yield "unfitted", LogisticRegression(), "not fitted"
    yield "unfitted_pipeline", make_pipeline(StandardScaler(), LogisticRegression()), "not fitted"
    yield "dbscan", cluster.DBSCAN().fit(flowers), "only about the rows that it was fitted on"
    yield "neighbours", neighbors.NearestNeighbors().fit(flowers), "has none of predict"
    yield "t_sne", manifold.TSNE(perplexity=5, max_iter=250).fit(flowers[:20]), "only about the rows that it was fitted on"
    dictionaries = make_pipeline(DictVectorizer(), LogisticRegression()).fit([{"a": 1}, {"b": 2}], [0, 1])
    yield "dictionaries", dictionaries, "DictVectorizer takes dictionaries"
    files = TfidfVectorizer(input="filename")
    files.set_params(input="content").fit(texts)
    yield "files", files.set_params(input="filename"), "would read files of the server"
